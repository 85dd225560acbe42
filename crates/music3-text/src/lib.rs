//! Caption and lyrics to prompt to token ids, as MiniMax-Music3 expects them.
