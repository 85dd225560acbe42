//! Files made to harm: each is refused with its own message, in little time and memory.
//!
//! `weights-mapping/hostile.md` is the table of them. With `MUSIC3_HOSTILE_TABLE=1` it is written anew; without, its
//! messages must be those that come out.

#[path = "../weights/crafted.rs"]
mod crafted;
#[path = "../weights/crafted_pth.rs"]
mod crafted_pth;
mod pickles;
mod places;
mod safetensors;
mod table;
