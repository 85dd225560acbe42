//! The five components of MiniMax-Music3 as generic Burn modules.
