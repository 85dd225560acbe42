//! MiniMax-Music3 on Burn: lyrics and a caption in, a 44.1 kHz stereo song out.
