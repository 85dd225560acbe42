//! What a run reports while it works, and how it is told to stop.

use std::ops::ControlFlow;

use burn::tensor::{Tensor, backend::Backend};
use music3_weights::Component;

/// How far a run is. Each event comes after the unit it names is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Weights are being read.
    Loading {
        /// The component.
        component: Component,
        /// Stored bytes read.
        bytes: u64,
        /// Stored bytes of the component.
        total_bytes: u64,
    },
    /// The language model has read the prompt.
    Prompt {
        /// Tokens of the prompt.
        tokens: usize,
    },
    /// A frame was generated.
    Frame {
        /// Frames so far.
        frames: usize,
        /// Frames at most.
        max_frames: usize,
    },
    /// A window went through one Euler step.
    Step {
        /// Index of the window.
        window: usize,
        /// Windows in all.
        windows: usize,
        /// Steps done in this window.
        step: usize,
        /// Steps per window.
        steps: usize,
    },
    /// A window was turned into samples.
    Vocoded {
        /// Windows done.
        window: usize,
        /// Windows in all.
        windows: usize,
    },
}

/// A value inside the run, offered to whoever compares it with upstream's.
#[derive(Debug)]
#[non_exhaustive]
pub enum Tap<'a, B: Backend> {
    /// The language model's hidden state that a step's codes come from, `[2, hidden_size]`.
    LastHidden {
        /// Decode step; step 0 is not emitted.
        step: usize,
        /// The tensor.
        tensor: &'a Tensor<B, 2>,
    },
    /// Logits of the end token and the semantic codes, widened; index 0 is the end token.
    SemanticLogits {
        /// Decode step.
        step: usize,
        /// Conditional row.
        conditional: &'a [f32],
        /// Unconditional row.
        unconditional: &'a [f32],
    },
    /// Guided logits of a residual code.
    DepthGuided {
        /// Decode step.
        step: usize,
        /// 1 for c1.
        codebook: usize,
        /// One value per code.
        guided: &'a [f32],
    },
    /// The condition as the condition encoder gives it, `[1, latents, out_dim]`.
    ConditionRaw {
        /// Window.
        window: usize,
        /// The tensor.
        tensor: &'a Tensor<B, 3>,
    },
    /// The condition in the transformer's width with the previous window's spliced in.
    Condition {
        /// Window.
        window: usize,
        /// The tensor.
        tensor: &'a Tensor<B, 3>,
    },
    /// The guided velocity, `[1, channels, latents]`.
    Velocity {
        /// Window.
        window: usize,
        /// Euler step.
        step: usize,
        /// The tensor.
        tensor: &'a Tensor<B, 3>,
    },
    /// The latents after an Euler step.
    Latents {
        /// Window.
        window: usize,
        /// Euler step.
        step: usize,
        /// The tensor.
        tensor: &'a Tensor<B, 3>,
    },
    /// The latents of a finished window.
    LatentChunk {
        /// Window.
        window: usize,
        /// The tensor.
        tensor: &'a Tensor<B, 3>,
    },
    /// A window's samples before they are cropped, `[1, 2, samples]`.
    Waveform {
        /// Window.
        window: usize,
        /// The tensor.
        tensor: &'a Tensor<B, 3>,
    },
}

/// Follows a run. `()` follows nothing and never stops it.
pub trait Listener<B: Backend> {
    /// Called after each unit of work; `Break` stops the run before the next one.
    fn progress(&mut self, _progress: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Returns whether [`tap`](Self::tap) wants the logits that codes are drawn from. They are then brought to the host for
    /// every code, which a run without such a listener does not wait for.
    fn looks_at_logits(&self) -> bool {
        false
    }

    /// Called with values inside the run. Reading one costs a transfer; the default reads none.
    fn tap(&mut self, _tap: Tap<'_, B>) {}
}

impl<B: Backend> Listener<B> for () {}

/// Follows a run's progress through a closure.
#[derive(Debug)]
pub struct OnProgress<F>(pub F);

impl<B: Backend, F: FnMut(Progress) -> ControlFlow<()>> Listener<B> for OnProgress<F> {
    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        (self.0)(progress)
    }
}
