//! The autoregressive half: prompt in, frames out, one frame of eight codes at a time.
//!
//! # Source
//! `modular_pipelines/minimax_music3/encoders.py:106-151` (depth codes and feedback) and `:290-364` (the loop).

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use music3_model::{DepthDecoder, Qwen3ForCausalLM};
use music3_nn::{ComputePath, KvCache, Width, ops};
use music3_text::{
    PromptIds,
    token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET, SEMANTIC_CODES},
};

use crate::{
    error::{SongError, Stage},
    progress::{Listener, Progress, Tap},
};

pub use crate::picker::{Picker, guided_to_host};

/// The conditional and the unconditional row, one batch everywhere.
pub(crate) const ROWS: usize = 2;

/// Where the codes of a frame come from: a draw, or a recording that is replayed.
pub trait CodeSource {
    /// Returns the semantic code of a step, or `None` for the end token.
    ///
    /// `guided` holds the guided logits over the audio rows, index 0 for the end token and 1 + j for code j, minus
    /// infinity where excluded.
    fn semantic(&mut self, step: usize, guided: &[f32]) -> Option<u32>;

    /// Returns the code of residual codebook `codebook` (1 for c1). `guided` holds one value per code.
    fn residual(&mut self, step: usize, codebook: usize, guided: &[f32]) -> u32;

    /// Returns the exponential numbers of all draws of a step, so that a device can draw by itself: first those of the
    /// end token and the semantic codes, then those of each of `residual_codebooks` codebooks of `codes` codes. `None`
    /// from a source that must be asked for each code.
    fn exponentials(&mut self, _step: usize, _residual_codebooks: usize, _codes: usize) -> Option<Vec<f32>> {
        None
    }

    /// Says that the song ended with the semantic draw of `step`: whatever was drawn after that draw is taken back.
    fn ended(&mut self, _step: usize) {}
}

impl<T: CodeSource + ?Sized> CodeSource for &mut T {
    fn semantic(&mut self, step: usize, guided: &[f32]) -> Option<u32> {
        (**self).semantic(step, guided)
    }

    fn residual(&mut self, step: usize, codebook: usize, guided: &[f32]) -> u32 {
        (**self).residual(step, codebook, guided)
    }

    fn exponentials(&mut self, step: usize, residual_codebooks: usize, codes: usize) -> Option<Vec<f32>> {
        (**self).exponentials(step, residual_codebooks, codes)
    }

    fn ended(&mut self, step: usize) {
        (**self).ended(step);
    }
}

/// Why the autoregressive half stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model drew its end token.
    EndToken,
    /// The length that was asked for was reached.
    FrameCap,
}

impl std::fmt::Display for FinishReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::EndToken => "the model ended the song",
            Self::FrameCap => "the length asked for was reached",
        })
    }
}

/// What the autoregressive half hands on.
#[derive(Debug)]
pub struct Frames<B: Backend> {
    /// The codes of every decode step that drew a semantic code. Row 0 only moves the state past `audio_start`: it is
    /// fed back but is not a frame of the song.
    pub codes: Vec<Vec<u32>>,
    /// The language model's and the depth decoder's hidden states of each frame, conditional row:
    /// `[1, frames, num_codebooks·hidden_size]`.
    pub frame_hiddens: Tensor<B, 3>,
    /// Why it stopped.
    pub finish: FinishReason,
}

/// The language model and the depth decoder, which are used on every frame and therefore stay together.
#[derive(Debug)]
pub struct AutoregressiveHalf<B: Backend> {
    /// Reads the prompt and each frame.
    pub language_model: Qwen3ForCausalLM<B>,
    /// Predicts the residual codes of a frame.
    pub rvq_depth_decoder: DepthDecoder<B>,
}

impl<B: Backend> AutoregressiveHalf<B> {
    /// Generates at most `max_frames` frames. Where the backend can draw codes by itself and nobody looks at what is drawn
    /// from, the host reads nothing but each frame's codes, while the next frame is already being computed.
    ///
    /// # Errors
    /// [`SongError::NoFrames`] if the end token comes first, [`SongError::NonFinite`] with the frame,
    /// [`SongError::Cancelled`] if the listener breaks.
    pub fn run(
        &self,
        prompt: &PromptIds,
        max_frames: usize,
        codes: &mut dyn CodeSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Frames<B>, SongError> {
        // Kernels read the cache where it lies, so that all steps ask for the same sizes. Plain ops copy of it what is stored, of
        // another size in every step, and none of them would serve twice.
        let in_place = self.rvq_depth_decoder.width() == Width::Bf16 && ComputePath::of::<B>() == ComputePath::Kernels;
        if !in_place {
            return self.run_steps(prompt, max_frames, codes, listener);
        }
        let device = self.language_model.model.norm.weight.val().device();
        music3_nn::exact_memory::<B, _>(&device, || self.run_steps(prompt, max_frames, codes, listener))
    }

    fn run_steps(
        &self,
        prompt: &PromptIds,
        max_frames: usize,
        codes: &mut dyn CodeSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Frames<B>, SongError> {
        // 1. Prefill: both rows of the prompt; the last position's hidden state leads to the first codes.
        let tokens = prompt.conditional.len();
        let device = self.language_model.model.norm.weight.val().device();
        // Upstream's cache grows without end; this one is exactly as large as the run can get.
        let mut state = self.language_model.state(ROWS, tokens + max_frames + 1);
        let hidden = self.language_model.forward(self.language_model.embed(prompt_ids(prompt, &device)), &mut state);
        let mut last_hidden = last_position(hidden);
        proceed(listener, Progress::Prompt { tokens })?;

        let mut cache = depth_cache(&self.rvq_depth_decoder);
        let mut picker = Picker::choose(&self.rvq_depth_decoder, codes, listener, &device);
        let mut run = Run { codes: Vec::new(), hiddens: Vec::new() };
        let mut finish = FinishReason::FrameCap;
        for step in 0..=max_frames {
            listener.tap(Tap::LastHidden { step, tensor: &last_hidden });
            // 2. Semantic code.
            picker.begin(step);
            let logits = self.semantic_logits(last_hidden.clone());
            let Some(token) = picker.semantic(logits, listener)? else {
                finish = FinishReason::EndToken;
                break;
            };
            let embedding = self.language_model.embed(token);
            // 3. Residual codes.
            let mut pick = |codebook: usize, logits: Tensor<B, 2>| picker.residual(codebook, logits, listener);
            let depth_hidden =
                depth_frame(&self.rvq_depth_decoder, &mut cache, last_hidden.clone(), embedding.clone(), &mut pick)?;
            // 4. Step 0 only moves the state past `audio_start`.
            let hidden = Tensor::cat(vec![last_hidden.clone().narrow(0, 0, 1), depth_hidden], 1);
            let pending = picker.end();
            // 5. Feedback, except after the last frame.
            if step < max_frames {
                let feedback = embed_frame(&self.rvq_depth_decoder, embedding, picker.residual_rows());
                last_hidden = last_position(self.language_model.forward(feedback, &mut state));
            }
            let Some(codes) = picker.codes(pending)? else {
                finish = FinishReason::EndToken;
                break;
            };
            run.codes.push(codes);
            if step > 0 {
                run.hiddens.push(hidden);
                proceed(listener, Progress::Frame { frames: run.hiddens.len(), max_frames })?;
            }
        }
        run.finish(finish)
    }

    /// Logits of the end token, of the few tokens between it and the codes, and of the codes: `[2, columns]`.
    pub fn semantic_logits(&self, last_hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        let (first, end) = (AUDIO_END as usize, (SEMANTIC_CODE_OFFSET + SEMANTIC_CODES) as usize);
        self.language_model.logits_of(last_hidden, first..end)
    }
}

struct Run<B: Backend> {
    codes: Vec<Vec<u32>>,
    hiddens: Vec<Tensor<B, 2>>,
}

impl<B: Backend> Run<B> {
    fn finish(self, finish: FinishReason) -> Result<Frames<B>, SongError> {
        if self.hiddens.is_empty() {
            return Err(SongError::NoFrames);
        }
        let frame_hiddens = Tensor::stack(self.hiddens, 1);
        Ok(Frames { codes: self.codes, frame_hiddens, finish })
    }
}

/// Chooses the code of a residual codebook (1 for c1) from its logits `[2, codes]`; returns its row of
/// `audio_embeddings`, once for each row of the batch, `[2, 1]`.
pub type PickCode<'a, B> = dyn FnMut(usize, Tensor<B, 2>) -> Result<Tensor<B, 2, Int>, SongError> + 'a;

/// Returns the cache that [`depth_frame`] works in.
pub fn depth_cache<B: Backend>(decoder: &DepthDecoder<B>) -> KvCache<B> {
    decoder.cache(ROWS, decoder.num_codebooks())
}

/// Predicts the residual codes of one frame, codebook by codebook; `pick` chooses each from its logits. Returns the hidden
/// state that each code came from, conditional row, side by side. `cache` is forgotten first, so one serves all frames.
///
/// # Shapes
/// `last_hidden` `[2, hidden_size]`, `semantic_embedding` `[2, 1, hidden_size]` → `[1, (num_codebooks − 1)·hidden_size]`
///
/// # Errors
/// Whatever `pick` returns.
///
/// # Source
/// `encoders.py:122-151`; keys and values are kept where upstream runs the whole prefix again.
pub fn depth_frame<B: Backend>(
    decoder: &DepthDecoder<B>,
    cache: &mut KvCache<B>,
    last_hidden: Tensor<B, 2>,
    semantic_embedding: Tensor<B, 3>,
    pick: &mut PickCode<'_, B>,
) -> Result<Tensor<B, 2>, SongError> {
    let codebooks = decoder.num_codebooks();
    cache.truncate(0);
    let mut hiddens = Vec::with_capacity(codebooks - 1);
    // The language model's hidden state and the semantic code are read together.
    let mut sequence = Tensor::cat(vec![last_hidden.unsqueeze_dim(1), semantic_embedding], 1);
    for codebook in 1..codebooks {
        let hidden = last_position(decoder.read(sequence, cache));
        hiddens.push(hidden.clone().narrow(0, 0, 1));
        let row = pick(codebook, decoder.audio_heads[codebook - 1].forward(hidden))?;
        if codebook + 1 == codebooks {
            break;
        }
        sequence = decoder.embed(row);
    }
    Ok(Tensor::cat(hiddens, 1))
}

/// Returns what the language model reads as a finished frame: the sum of its codes' embeddings over the root of their
/// number.
///
/// # Shapes
/// `semantic_embedding` `[2, 1, hidden_size]`, `rows` `[2, num_codebooks − 1]` → `[2, 1, hidden_size]`
///
/// # Source
/// `encoders.py:106-119`: the residual embeddings are summed with one rounding, then joined, then scaled by an f32
/// scalar.
pub fn embed_frame<B: Backend>(
    decoder: &DepthDecoder<B>,
    semantic_embedding: Tensor<B, 3>,
    rows: Tensor<B, 2, Int>,
) -> Tensor<B, 3> {
    let width = decoder.width();
    let extra = ops::sum_dim(decoder.embed(rows), 1, width);
    let scale = 1.0 / (decoder.num_codebooks() as f64).sqrt();
    ops::mul_scalar(ops::add(semantic_embedding, extra, width), scale as f32, width)
}

/// Passes progress on and turns a break into an error.
fn proceed<B: Backend>(listener: &mut dyn Listener<B>, progress: Progress) -> Result<(), SongError> {
    match listener.progress(progress) {
        std::ops::ControlFlow::Continue(()) => Ok(()),
        std::ops::ControlFlow::Break(()) => Err(SongError::Cancelled { stage: Stage::Autoregressive }),
    }
}

/// `[batch, tokens, hidden_size]` → `[batch, hidden_size]`
fn last_position<B: Backend>(hidden: Tensor<B, 3>) -> Tensor<B, 2> {
    let [batch, tokens, hidden_size] = hidden.dims();
    hidden.narrow(1, tokens - 1, 1).reshape([batch, hidden_size])
}

/// `[1, n]`
fn ids<B: Backend>(rows: impl IntoIterator<Item = usize>, device: &B::Device) -> Tensor<B, 2, Int> {
    let rows: Vec<i32> = rows.into_iter().map(|row| i32::try_from(row).expect("tables have fewer rows")).collect();
    let columns = rows.len();
    Tensor::from_data(TensorData::new(rows, [1, columns]), device)
}

/// `[2, tokens]`
fn prompt_ids<B: Backend>(prompt: &PromptIds, device: &B::Device) -> Tensor<B, 2, Int> {
    let row = |row: &[u32]| ids(row.iter().map(|&id| id as usize), device);
    Tensor::cat(vec![row(&prompt.conditional), row(&prompt.unconditional)], 0)
}
