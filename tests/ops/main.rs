//! Every op of the op layer against torch's answers, on every backend.
//!
//! `goldens/generate/ops.py` asked torch; inputs are drawn again here (`draw`), so that the files hold answers only.
//! Rounding, index, + − × ÷ are exact to the bit, zeros' signs and NaN included; transcendental ops differ in at most
//! 0.1 % of bf16 values, by one unit in the last place; reductions and products keep to the figures in `bounds.json`.

mod attention;
mod binary;
mod bounds;
mod conv;
mod draw;
mod golden;
mod index;
mod judge;
mod norm;
mod product;
mod rotary;
mod rounding;
mod unary;
