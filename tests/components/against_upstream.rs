//! Every golden of every component passes its gate, which refuses f32 arithmetic rounded at the end where it is bf16.

use burn::tensor::backend::Backend;
use music3_testkit::on_each_backend;
use music3_tests::{assert_passes, goldens_of};

/// One body per component: all goldens in a folder whose names begin with it.
macro_rules! components {
    ($($body:ident: $folder:literal $prefix:literal),+ $(,)?) => {
        on_each_backend!($($body),+);
        $(
            fn $body<B: Backend>(device: &B::Device) {
                assert_passes::<B>(&goldens_of($folder, $prefix), device);
            }
        )+
    };
}

components!(
    condition_encoder: "tiny" "condition_encoder.",
    rvq_depth_decoder: "tiny" "rvq_depth_decoder.",
    depth_loop: "tiny" "depth_loop.",
    language_model: "tiny" "language_model.",
    transformer_block: "tiny" "transformer_block.",
    transformer: "tiny" "transformer.",
    snake: "tiny" "snake.",
    vocoder_block: "tiny" "vocoder_block.",
    vocoder: "tiny" "vocoder.",
    guided_logits: "tiny" "guided_logits.",
    sample_probs: "tiny" "sample_probs.",
    schedule: "tiny" "schedule.",
    flow: "tiny" "flow.",
    prompt_strings: "text" "prompt_strings",
    prompt_token_ids: "text" "prompt_token_ids",
    windows: "tables" "windows",
    nearest_index: "tables" "nearest_index",
    durations: "tables" "durations",
);
