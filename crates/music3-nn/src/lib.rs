//! One function per torch op with its rounding points, and the layers made of them.
