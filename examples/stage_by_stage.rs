//! The three stages one by one, each loaded, run and dropped: what goes in, what comes out.
//!
//! `cargo run --release --example stage_by_stage`

use std::error::Error;

use burn_flex::{Flex, FlexDevice};
use music3::{Music3, Options, Sampler, SongRequest, flow::FlowOptions, rng::TorchGenerator, vocode::vocode};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = music3::demo::unpack(music3::demo::Demo::Random)?;
    let music = Music3::<Flex>::open(&folder, FlexDevice, Options::default())?;
    let request = SongRequest {
        max_seconds: 1.0,
        steps: 8,
        ..SongRequest::new("slow piano ballad, female voice", "[verse]\nSnow falls on the harbour tonight")
    };
    // One generator feeds all stages, in this order.
    let mut source = Sampler::new(TorchGenerator::new(request.seed), music.configs().language_model.vocab_size);

    // 1. Text to token ids: a conditional and an unconditional row.
    let prompt = music.prompt(&request)?;
    eprintln!("prompt: 2 rows of {} tokens, from {:?}", prompt.conditional.len(), &prompt.conditional[..4]);

    // 2. Language model and depth decoder: eight codes a frame, and the hidden states they came from.
    let frames = {
        let half = music.load_autoregressive(&mut ())?;
        half.run(&prompt, request.validate()?, &mut source, &mut ())?
    };
    // Row 0 only starts the song and is no frame of it.
    eprintln!("frame 1: codes {:?}", frames.codes[1]);
    eprintln!("frame hiddens: {:?}, {}", frames.frame_hiddens.dims(), frames.finish);

    // 3. Condition encoder and transformer: noise becomes latents, window by window.
    let latents = {
        let flow = music.load_flow(&mut ())?;
        let options = FlowOptions { steps: request.steps, ..FlowOptions::default() };
        flow.run(frames.frame_hiddens, options, &mut source, &mut ())?
    };
    let mean = latents[0].clone().mean().into_scalar();
    eprintln!("latents: {} window of {:?}, mean {mean:.3}", latents.len(), latents[0].dims());

    // 4. Vocoder: latents become samples.
    let audio = vocode(&music.load_vocoder(&mut ())?, latents, &music.configs().latent_rates(), &mut ())?;
    eprintln!("samples: 2 channels of {} at {} Hz", audio.samples(), audio.sample_rate_hz());
    eprintln!("left channel: {:.4?}", &audio.channels()[0][..4]);
    Ok(())
}
