//! Who chooses a frame's codes: a [`CodeSource`] that is asked for each, or the device, with numbers that the source
//! gives it.

use burn::tensor::{DType, Int, Tensor, TensorData, backend::Backend};
use music3_model::DepthDecoder;
use music3_nn::{Draw, PendingRead, Width, ops, try_draw};
use music3_text::token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET, SEMANTIC_CODES};

use crate::{
    autoregressive::{CodeSource, ROWS},
    error::{SongError, Stage},
    progress::{Listener, Tap},
    sampling,
};

/// Columns between the end token's logit and those of the codes.
const BETWEEN: usize = (SEMANTIC_CODE_OFFSET - AUDIO_END - 1) as usize;

/// The end token and the semantic codes.
const SEMANTIC_CANDIDATES: usize = SEMANTIC_CODES as usize + 1;

/// The sizes of a frame.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    codebooks: usize,
    codes: usize,
}

/// Chooses the codes of one step after another.
pub struct Picker<B: Backend, S> {
    source: S,
    sizes: Sizes,
    device: B::Device,
    step: usize,
    /// The codes that were chosen so far in this step.
    chosen: Vec<u32>,
    /// What the device draws with in this step; `None` where the source is asked for each code.
    drawing: Option<Drawing<B>>,
    draws_on_device: bool,
}

/// A step's numbers and results on the device.
struct Drawing<B: Backend> {
    exponentials: Tensor<B, 1>,
    outcome: Tensor<B, 1, Int>,
}

impl<B: Backend, S: CodeSource> Picker<B, S> {
    /// Lets the device draw where it can and nobody wants to see what it draws from.
    pub fn choose(decoder: &DepthDecoder<B>, source: S, listener: &dyn Listener<B>, device: &B::Device) -> Self {
        let sizes = Sizes { codebooks: decoder.num_codebooks(), codes: decoder.audio_vocab_size() };
        let draws_on_device = !listener.looks_at_logits() && decoder.width() == Width::Bf16 && can_draw::<B>(device);
        Self { source, sizes, device: device.clone(), step: 0, chosen: Vec::new(), drawing: None, draws_on_device }
    }

    /// Begins a step.
    pub fn begin(&mut self, step: usize) {
        self.step = step;
        self.chosen.clear();
        let Sizes { codebooks, codes } = self.sizes;
        let numbers = if self.draws_on_device { self.source.exponentials(step, codebooks - 1, codes) } else { None };
        self.drawing = numbers.map(|numbers| {
            let len = numbers.len();
            let exponentials = Tensor::from_data(TensorData::new(numbers, [len]), (&self.device, DType::F32));
            let outcome = Tensor::from_data(TensorData::new(vec![0i32; 4 * codebooks], [4 * codebooks]), &self.device);
            Drawing { exponentials, outcome }
        });
    }

    /// Chooses the semantic code; returns its token for both rows, `[2, 1]`, or `None` for the end token. Where the device
    /// draws, the end token shows only in [`codes`](Self::codes).
    pub fn semantic(
        &mut self,
        logits: Tensor<B, 2>,
        listener: &mut dyn Listener<B>,
    ) -> Result<Option<Tensor<B, 2, Int>>, SongError> {
        if let Some(drawing) = &self.drawing {
            let draw = Draw {
                slot: 0,
                slots: self.sizes.codebooks,
                candidates: SEMANTIC_CANDIDATES,
                skipped: BETWEEN,
                top_k: sampling::SAMPLING_TOP_K,
                filters: true,
                first_exponential: 0,
                base: SEMANTIC_CODE_OFFSET as usize,
                origin: 1,
            };
            return Ok(Some(drawing.draw(&logits, draw)));
        }
        let [conditional, unconditional] = rows_to_host(logits).map(|row| [&row[..1], &row[1 + BETWEEN..]].concat());
        let step = self.step;
        refuse_non_finite(&conditional, LANGUAGE_MODEL_LOGITS, step)?;
        refuse_non_finite(&unconditional, LANGUAGE_MODEL_LOGITS, step)?;
        listener.tap(Tap::SemanticLogits { step, conditional: &conditional, unconditional: &unconditional });
        let guided = sampling::guided_candidates(
            &conditional,
            &unconditional,
            sampling::GUIDANCE_SCALE,
            sampling::GUIDANCE_TOP_K,
        );
        let Some(code) = self.source.semantic(step, &guided) else { return Ok(None) };
        refuse_unknown(code, SEMANTIC_CODES as usize, step, 0)?;
        self.chosen.push(code);
        Ok(Some(self.twice(&[(code + SEMANTIC_CODE_OFFSET) as usize])))
    }

    /// Chooses a residual code; returns its row of the depth decoder's table for both rows, `[2, 1]`.
    pub fn residual(
        &mut self,
        codebook: usize,
        logits: Tensor<B, 2>,
        listener: &mut dyn Listener<B>,
    ) -> Result<Tensor<B, 2, Int>, SongError> {
        let Sizes { codebooks, codes } = self.sizes;
        let base = (codebook - 1) * codes;
        if let Some(drawing) = &self.drawing {
            let draw = Draw {
                slot: codebook,
                slots: codebooks,
                candidates: codes,
                skipped: 0,
                top_k: sampling::SAMPLING_TOP_K,
                filters: false,
                first_exponential: SEMANTIC_CANDIDATES + base,
                base,
                origin: 0,
            };
            return Ok(drawing.draw(&logits, draw));
        }
        let step = self.step;
        let guided = guided_to_host(logits);
        refuse_non_finite(&guided, DEPTH_DECODER_LOGITS, step)?;
        listener.tap(Tap::DepthGuided { step, codebook, guided: &guided });
        let code = self.source.residual(step, codebook, &guided);
        refuse_unknown(code, guided.len(), step, codebook)?;
        self.chosen.push(code);
        Ok(self.twice(&[base + code as usize]))
    }

    /// Returns the rows of the depth decoder's table that belong to the residual codes of the step, for both rows,
    /// `[2, num_codebooks − 1]`.
    pub fn residual_rows(&self) -> Tensor<B, 2, Int> {
        let Sizes { codebooks, codes } = self.sizes;
        match &self.drawing {
            Some(Drawing { outcome, .. }) => {
                let rows = outcome.clone().narrow(0, 2 * codebooks + ROWS, ROWS * (codebooks - 1));
                rows.reshape([codebooks - 1, ROWS]).transpose()
            }
            None => {
                let residual = self.chosen.iter().skip(1).enumerate();
                self.twice(&residual.map(|(index, code)| index * codes + *code as usize).collect::<Vec<_>>())
            }
        }
    }

    /// The same ids for both rows, `[2, n]`.
    fn twice(&self, ids: &[usize]) -> Tensor<B, 2, Int> {
        let both: Vec<i32> =
            [ids, ids].concat().into_iter().map(|id| i32::try_from(id).expect("tables have fewer rows")).collect();
        Tensor::from_data(TensorData::new(both, [ROWS, ids.len()]), &self.device)
    }

    /// Ends the choosing of a step: where the device drew, the codes begin their way back.
    pub fn end(&mut self) -> Option<PendingRead> {
        let Drawing { outcome, .. } = self.drawing.as_ref()?;
        Some(PendingRead::begin(outcome).expect("a device that draws can be read"))
    }

    /// Returns the codes of the step, c0 first, or `None` for the end token.
    pub fn codes(&mut self, pending: Option<PendingRead>) -> Result<Option<Vec<u32>>, SongError> {
        let Some(pending) = pending else { return Ok(Some(std::mem::take(&mut self.chosen))) };
        let device_failed = |message| SongError::Device { stage: Stage::Autoregressive, message };
        let outcome = pending.wait().map_err(device_failed)?;
        let (winners, rest) = outcome.split_at(self.sizes.codebooks);
        for (slot, broken) in rest[..self.sizes.codebooks].iter().enumerate() {
            if *broken > 0 {
                let what = if slot == 0 { LANGUAGE_MODEL_LOGITS } else { DEPTH_DECODER_LOGITS };
                return Err(non_finite(what, self.step));
            }
        }
        let [semantic, residual @ ..] = winners else { unreachable!("a frame has a semantic code") };
        let Some(semantic) = semantic.checked_sub(1).filter(|code| *code >= 0) else {
            self.source.ended(self.step);
            return Ok(None);
        };
        let mut codes = vec![semantic as u32];
        codes.extend(residual.iter().map(|code| *code as u32));
        for (codebook, code) in codes.iter().enumerate() {
            let known = if codebook == 0 { SEMANTIC_CODES as usize } else { self.sizes.codes };
            refuse_unknown(*code, known, self.step, codebook)?;
        }
        Ok(Some(codes))
    }
}

impl<B: Backend> Drawing<B> {
    /// Draws on the device; returns the winner's row of its table for both rows, `[2, 1]`.
    fn draw(&self, logits: &Tensor<B, 2>, draw: Draw) -> Tensor<B, 2, Int> {
        try_draw(logits, &self.exponentials, &self.outcome, draw).expect("the device has drawn such logits before")
    }
}

/// Returns whether a device draws by itself.
fn can_draw<B: Backend>(device: &B::Device) -> bool {
    let logits = Tensor::<B, 2>::zeros([ROWS, 1], (device, DType::F32));
    let logits = ops::round(logits, Width::Bf16);
    let exponentials = Tensor::<B, 1>::ones([1], (device, DType::F32));
    let outcome = Tensor::<B, 1, Int>::from_data(TensorData::new(vec![0i32; 4], [4]), device);
    let draw = Draw {
        slot: 0,
        slots: 1,
        candidates: 1,
        skipped: 0,
        top_k: 1,
        filters: false,
        first_exponential: 0,
        base: 0,
        origin: 0,
    };
    try_draw(&logits, &exponentials, &outcome, draw).is_some()
}

const LANGUAGE_MODEL_LOGITS: &str = "the language model's logits";
const DEPTH_DECODER_LOGITS: &str = "the depth decoder's logits";

/// Returns the guided logits of a residual codebook, `[2, codes]` with the conditional row first.
pub fn guided_to_host<B: Backend>(logits: Tensor<B, 2>) -> Vec<f32> {
    let [conditional, unconditional] = rows_to_host(logits);
    sampling::guide(&conditional, &unconditional, sampling::GUIDANCE_SCALE)
}

/// Both rows of `[2, n]`, widened.
fn rows_to_host<B: Backend>(x: Tensor<B, 2>) -> [Vec<f32>; ROWS] {
    let [_, columns] = x.dims();
    let data = ops::widen(x).into_data();
    let values = data.as_slice::<f32>().expect("widened tensors are f32");
    [values[..columns].to_vec(), values[columns..].to_vec()]
}

fn refuse_non_finite(values: &[f32], what: &'static str, step: usize) -> Result<(), SongError> {
    if values.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    Err(non_finite(what, step))
}

fn non_finite(what: &'static str, step: usize) -> SongError {
    SongError::NonFinite { stage: Stage::Autoregressive, what, place: format!("frame {step}") }
}

fn refuse_unknown(code: u32, codes: usize, frame: usize, codebook: usize) -> Result<(), SongError> {
    if (code as usize) < codes {
        return Ok(());
    }
    Err(SongError::CodeOutOfRange { frame, codebook, code, codes })
}
