//! The autoregressive half: prompt in, frames out, one frame of eight codes at a time.
//!
//! # Source
//! `modular_pipelines/minimax_music3/encoders.py:106-151` (depth codes and feedback) and `:290-364` (the loop).

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use music3_model::{DepthDecoder, Qwen3ForCausalLM};
use music3_nn::ops;
use music3_text::{
    PromptIds,
    token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET, SEMANTIC_CODES},
};

use crate::{
    error::{SongError, Stage},
    progress::{Listener, Progress, Tap},
    sampling,
};

/// The conditional and the unconditional row, one batch everywhere.
const ROWS: usize = 2;

/// Where the codes of a frame come from: a draw, or a recording that is replayed.
pub trait CodeSource {
    /// Returns the semantic code of a step, or `None` for the end token.
    ///
    /// `guided` holds the guided logits over the audio rows, index 0 for the end token and 1 + j for code j, minus
    /// infinity where excluded.
    fn semantic(&mut self, step: usize, guided: &[f32]) -> Option<u32>;

    /// Returns the code of residual codebook `codebook` (1 for c1). `guided` holds one value per code.
    fn residual(&mut self, step: usize, codebook: usize, guided: &[f32]) -> u32;
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
    /// Generates at most `max_frames` frames.
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
        // 1. Prefill: both rows of the prompt; the last position's hidden state leads to the first codes.
        let tokens = prompt.conditional.len();
        let device = self.language_model.model.norm.weight.val().device();
        // Upstream's cache grows without end; this one is exactly as large as the run can get.
        let mut state = self.language_model.state(ROWS, tokens + max_frames + 1);
        let hidden = self.language_model.forward(self.language_model.embed(prompt_ids(prompt, &device)), &mut state);
        let mut last_hidden = last_position(hidden);
        proceed(listener, Progress::Prompt { tokens })?;

        let mut run = Run { codes: Vec::new(), hiddens: Vec::new() };
        let mut finish = FinishReason::FrameCap;
        for step in 0..=max_frames {
            listener.tap(Tap::LastHidden { step, tensor: &last_hidden });
            // 2. Semantic code.
            let Some(semantic) = self.semantic_code(&last_hidden, step, codes, listener)? else {
                finish = FinishReason::EndToken;
                break;
            };
            // 3. Residual codes.
            let embedding = self.semantic_embedding(semantic, step, &device)?;
            let mut pick = |codebook: usize, guided: &[f32]| {
                refuse_non_finite(guided, "the depth decoder's logits", step)?;
                listener.tap(Tap::DepthGuided { step, codebook, guided });
                let code = codes.residual(step, codebook, guided);
                refuse_unknown(code, guided.len(), step, codebook)?;
                Ok(code)
            };
            let frame =
                depth_frame(&self.rvq_depth_decoder, last_hidden.clone(), embedding.clone(), semantic, &mut pick)?;
            // 4. Step 0 only moves the state past `audio_start`.
            if step > 0 {
                run.hiddens.push(Tensor::cat(vec![last_hidden.narrow(0, 0, 1), frame.hidden], 1));
            }
            // 5. Feedback, except after the last frame.
            let feedback = (step < max_frames).then(|| embed_frame(&self.rvq_depth_decoder, embedding, &frame.codes));
            run.codes.push(frame.codes);
            if step > 0 {
                proceed(listener, Progress::Frame { frames: run.hiddens.len(), max_frames })?;
            }
            let Some(feedback) = feedback else { break };
            last_hidden = last_position(self.language_model.forward(feedback, &mut state));
        }
        run.finish(finish)
    }

    /// Draws the semantic code of a step from the language model's last hidden state, `[2, hidden_size]`; `None` is the
    /// end token.
    ///
    /// # Errors
    /// [`SongError::NonFinite`] with the step, [`SongError::CodeOutOfRange`] for a recorded code that does not exist.
    pub fn semantic_code(
        &self,
        last_hidden: &Tensor<B, 2>,
        step: usize,
        codes: &mut dyn CodeSource,
        listener: &mut dyn Listener<B>,
    ) -> Result<Option<u32>, SongError> {
        // The end token and the codes lie close together; the few rows between them are dropped.
        let first = AUDIO_END as usize;
        let first_code = SEMANTIC_CODE_OFFSET as usize;
        let rows = first..first_code + SEMANTIC_CODES as usize;
        let between = first_code - first;
        let [conditional, unconditional] = rows_to_host(self.language_model.logits_of(last_hidden.clone(), rows))
            .map(|row| [&row[..1], &row[between..]].concat());
        refuse_non_finite(&conditional, "the language model's logits", step)?;
        refuse_non_finite(&unconditional, "the language model's logits", step)?;
        listener.tap(Tap::SemanticLogits { step, conditional: &conditional, unconditional: &unconditional });
        let guided = sampling::guided_candidates(
            &conditional,
            &unconditional,
            sampling::GUIDANCE_SCALE,
            sampling::GUIDANCE_TOP_K,
        );
        let code = codes.semantic(step, &guided);
        if let Some(code) = code {
            refuse_unknown(code, SEMANTIC_CODES as usize, step, 0)?;
        }
        Ok(code)
    }

    /// `[2, 1, hidden_size]`: the same row for both.
    fn semantic_embedding(&self, code: u32, step: usize, device: &B::Device) -> Result<Tensor<B, 3>, SongError> {
        refuse_unknown(code, SEMANTIC_CODES as usize, step, 0)?;
        let id = ids([(code + SEMANTIC_CODE_OFFSET) as usize], device);
        Ok(self.language_model.embed(id).repeat_dim(0, ROWS))
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

/// The residual half of a frame.
#[derive(Debug)]
pub struct DepthFrame<B: Backend> {
    /// All codes of the frame, c0 first.
    pub codes: Vec<u32>,
    /// The hidden state that each residual code came from, conditional row, side by side:
    /// `[1, (num_codebooks − 1)·hidden_size]`.
    pub hidden: Tensor<B, 2>,
}

/// Chooses the code of a residual codebook (1 for c1) from its guided logits.
pub type PickCode<'a> = dyn FnMut(usize, &[f32]) -> Result<u32, SongError> + 'a;

/// Predicts the residual codes of one frame, codebook by codebook; `pick` chooses each from its guided logits.
///
/// # Shapes
/// `last_hidden` `[2, hidden_size]`, `semantic_embedding` `[2, 1, hidden_size]`
///
/// # Errors
/// Whatever `pick` returns.
///
/// # Source
/// `encoders.py:122-151`; keys and values are kept where upstream runs the whole prefix again.
pub fn depth_frame<B: Backend>(
    decoder: &DepthDecoder<B>,
    last_hidden: Tensor<B, 2>,
    semantic_embedding: Tensor<B, 3>,
    semantic: u32,
    pick: &mut PickCode<'_>,
) -> Result<DepthFrame<B>, SongError> {
    let device = last_hidden.device();
    let codebooks = decoder.num_codebooks();
    let mut cache = decoder.cache(ROWS, codebooks);
    let mut codes = vec![semantic];
    let mut hiddens = Vec::with_capacity(codebooks - 1);
    // The language model's hidden state and the semantic code are read together.
    let mut sequence = Tensor::cat(vec![last_hidden.unsqueeze_dim(1), semantic_embedding], 1);
    for codebook in 1..codebooks {
        let hidden = last_position(decoder.forward_cached(decoder.projection.forward(sequence), &mut cache));
        hiddens.push(hidden.clone().narrow(0, 0, 1));
        let [conditional, unconditional] = rows_to_host(decoder.audio_heads[codebook - 1].forward(hidden));
        let guided = sampling::guide(&conditional, &unconditional, sampling::GUIDANCE_SCALE);
        let code = pick(codebook, &guided)?;
        codes.push(code);
        if codebook + 1 == codebooks {
            break;
        }
        let row = ids([decoder.embedding_row(codebook, code as usize)], &device);
        sequence = decoder.embed(row).repeat_dim(0, ROWS);
    }
    Ok(DepthFrame { codes, hidden: Tensor::cat(hiddens, 1) })
}

/// Returns what the language model reads as a finished frame: the sum of its codes' embeddings over the root of their
/// number.
///
/// # Shapes
/// `semantic_embedding` `[2, 1, hidden_size]` → the same
///
/// # Source
/// `encoders.py:106-119`: the residual embeddings are summed with one rounding, then joined, then scaled by an f32
/// scalar.
pub fn embed_frame<B: Backend>(
    decoder: &DepthDecoder<B>,
    semantic_embedding: Tensor<B, 3>,
    codes: &[u32],
) -> Tensor<B, 3> {
    let width = decoder.width();
    let rows: Vec<usize> = codes
        .iter()
        .enumerate()
        .skip(1)
        .map(|(codebook, &code)| decoder.embedding_row(codebook, code as usize))
        .collect();
    let embeddings = decoder.embed(ids(rows, &semantic_embedding.device()));
    let extra = ops::sum_dim(embeddings, 1, width).repeat_dim(0, ROWS);
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

/// Both rows of `[2, n]`, widened.
fn rows_to_host<B: Backend>(x: Tensor<B, 2>) -> [Vec<f32>; ROWS] {
    let [_, columns] = x.dims();
    let data = ops::widen(x).into_data();
    let values = data.as_slice::<f32>().expect("widened tensors are f32");
    [values[..columns].to_vec(), values[columns..].to_vec()]
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

fn refuse_non_finite(values: &[f32], what: &'static str, step: usize) -> Result<(), SongError> {
    if values.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    Err(SongError::NonFinite { stage: Stage::Autoregressive, what, place: format!("frame {step}") })
}

fn refuse_unknown(code: u32, codes: usize, frame: usize, codebook: usize) -> Result<(), SongError> {
    if (code as usize) < codes {
        return Ok(());
    }
    Err(SongError::CodeOutOfRange { frame, codebook, code, codes })
}
