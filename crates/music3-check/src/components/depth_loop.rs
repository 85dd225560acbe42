//! The depth loop with forced codes: guided logits, hidden states and the feedback embedding of each frame.

use burn::tensor::{Tensor, TensorData, backend::Backend};
use music3::autoregressive::{depth_cache, depth_frame, embed_frame, guided_to_host};
use music3_model::{DepthDecoder, DepthDecoderConfig};
use music3_nn::Width;
use music3_weights::Component;

use super::{Computed, Context};
use crate::{CheckError, judge::Answers, values::Values};

/// The language model's embeddings of the first semantic codes, which are not the depth decoder's.
const SEMANTIC: &str = "semantic_embedding";

pub(super) fn depth_loop<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let (case, width) = (context.case, context.autoregressive());
    let config: DepthDecoderConfig = case.config_as()?;
    let decoder = config.init::<B>(width, context.device).map_err(|source| case.config_error(source))?;
    let source = case.tensors()?.with_prefix("w.").without(SEMANTIC);
    let decoder = context.load_from(decoder, (Component::RvqDepthDecoder, &case.config()), &source, width)?;
    let semantic = context.input::<2>(&format!("w.{SEMANTIC}"), config.hidden_size, width)?;
    let last_hidden = context.input::<3>("in.last_hidden", config.hidden_size, width)?;
    case.expect_dim("in.last_hidden", &last_hidden.dims(), (1, 2))?;
    let rows = [semantic.dims()[0]].into_iter().chain(vec![config.audio_vocab_size; config.num_codebooks - 1]);
    let codes = case.codes("in.codes", &rows.collect::<Vec<_>>())?;
    case.expect_dim("in.codes", &[codes.len()], (0, last_hidden.dims()[0]))?;

    let mut answers = Answers::new();
    for (frame, codes) in codes.iter().enumerate() {
        let hidden = last_hidden.clone().narrow(0, frame, 1).squeeze_dim(0);
        let row = semantic.clone().narrow(0, codes[0] as usize, 1);
        let embedding = row.unsqueeze_dim::<3>(0).repeat_dim(0, 2);
        let frame_answers = run_frame(&decoder, hidden, embedding, codes, width);
        answers.extend(frame_answers.into_iter().map(|(name, values)| (format!("{name}_{frame}"), values)));
    }
    Ok(answers.into())
}

fn run_frame<B: Backend>(
    decoder: &DepthDecoder<B>,
    last_hidden: Tensor<B, 2>,
    semantic: Tensor<B, 3>,
    codes: &[u32],
    width: Width,
) -> Vec<(&'static str, Values)> {
    let mut guided_rows = Vec::new();
    let device = last_hidden.device();
    let mut forced = |codebook: usize, logits: Tensor<B, 2>| {
        let guided = guided_to_host(logits);
        guided_rows.push(Values::f32(guided.clone(), [guided.len()]));
        let row = decoder.embedding_row(codebook, codes[codebook] as usize) as i32;
        Ok(Tensor::from_data(TensorData::new(vec![row; 2], [2, 1]), &device))
    };
    let hidden = depth_frame(decoder, &mut depth_cache(decoder), last_hidden, semantic.clone(), &mut forced)
        .expect("a forced frame cannot fail");
    let residual = codes.iter().enumerate().skip(1);
    let rows: Vec<i32> =
        residual.map(|(codebook, code)| decoder.embedding_row(codebook, *code as usize) as i32).collect();
    let rows = Tensor::from_data(TensorData::new([rows.clone(), rows].concat(), [2, codes.len() - 1]), &device);
    let feedback = embed_frame(decoder, semantic, rows);
    let both: Vec<i64> = codes.iter().chain(codes).map(|&code| code.into()).collect();
    let shape = [2, codes.len()];
    let guided = Values::stacked(guided_rows).expect("every codebook has a head of one size");
    vec![
        ("guided", guided),
        ("depth_hidden", Values::of(hidden, width)),
        ("frame_codes", Values::int(both, shape)),
        ("feedback", Values::of(feedback, width)),
    ]
}
