//! Frames in files: they render to the song they are from, and files of anything else are refused.

use std::{collections::HashMap, path::Path};

use burn::tensor::backend::Backend;
use music3::{
    FramesOrigin, ModelConfigs, Music3, Options, Precision, SavedFrames, SongRequest, rng::Rng, stage_frames,
};
use music3_testkit::on_each_backend;
use music3_weights::Checkpoint;
use safetensors::{Dtype, tensor::TensorView};

on_each_backend!(frames_render_to_the_song_they_are_from, a_value_that_is_not_finite_is_not_written);

fn open<B: Backend>(precision: Precision, device: &B::Device) -> Music3<B> {
    let folder = music3::demo::unpack(music3::demo::Demo::Random).expect("the demo checkpoint");
    Music3::open(&folder, device.clone(), Options { precision, ..Options::default() }).expect("the demo checkpoint")
}

fn request() -> SongRequest {
    SongRequest { max_seconds: 0.4, steps: 2, seed: 5, ..SongRequest::new("folk", "[verse]\nla la") }
}

fn origin(request: &SongRequest, precision: Precision) -> FramesOrigin {
    FramesOrigin {
        program: "a test".to_owned(),
        model: "the demo".to_owned(),
        request: request.clone(),
        precision,
        backend: "any".to_owned(),
        finish: music3::FinishReason::FrameCap,
    }
}

fn frames_render_to_the_song_they_are_from<B: Backend>(device: &B::Device) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.frames");
    for precision in [Precision::Mixed, Precision::F32, Precision::Bf16] {
        let music = open::<B>(precision, device);
        for rng in [Rng::Torch, Rng::Counter] {
            let request = SongRequest { rng, ..request() };
            let song = music.generate(&request, &mut ()).expect("a song");
            let (frames, _) = music.frames(&request, &mut music.sampler(&request), &mut ()).expect("frames");
            let staged = stage_frames(&path, &frames, &origin(&request, precision)).expect("written");
            staged.complete().expect("renamed");

            let saved = SavedFrames::read(&path).expect("read");
            assert_eq!((saved.origin(), saved.count()), (&origin(&request, precision), song.codes.len()));
            let (frames, mut noise) = music.saved_frames(&saved, rng, request.seed).expect("the same model");
            let again = music.render(frames, request.steps, &mut noise, &mut ()).expect("a song");
            assert_eq!(again.audio, song.audio, "{precision}, {rng}");
            assert_eq!((again.codes, again.finish), (song.codes, song.finish), "{precision}, {rng}");
        }
    }
}

fn a_value_that_is_not_finite_is_not_written<B: Backend>(device: &B::Device) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.frames");
    let music = open::<B>(Precision::F32, device);
    let (mut frames, _) = music.frames(&request(), &mut music.sampler(&request()), &mut ()).expect("frames");
    frames.frame_hiddens = frames.frame_hiddens.clone() / frames.frame_hiddens.zeros_like();
    let error = stage_frames(&path, &frames, &origin(&request(), Precision::F32)).expect_err("no number");
    assert!(error.to_string().contains("a hidden state of frame 1 is not finite"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// What a crafted file holds.
#[derive(Clone)]
struct Crafted {
    notes: HashMap<String, String>,
    codes: (Dtype, Vec<usize>, Vec<u8>),
    hiddens: (Dtype, Vec<usize>, Vec<u8>),
}

/// Steps, codebooks and values per frame of a good file: the demo checkpoint's dimensions.
const STEPS: usize = 4;

impl Crafted {
    fn good(configs: &ModelConfigs) -> Self {
        let depth = &configs.rvq_depth_decoder;
        let size = depth.num_codebooks * depth.hidden_size;
        let origin = serde_json::to_string(&origin(&request(), Precision::F32)).expect("JSON");
        let notes = [("music3_frames".to_owned(), "1".to_owned()), ("origin".to_owned(), origin)];
        Self {
            notes: notes.into(),
            codes: (Dtype::I32, vec![STEPS, depth.num_codebooks], vec![0; 4 * STEPS * depth.num_codebooks]),
            hiddens: (Dtype::F32, vec![1, STEPS - 1, size], vec![0; 4 * (STEPS - 1) * size]),
        }
    }

    fn write(&self, path: &Path) {
        let view = |(dtype, shape, bytes): &(Dtype, Vec<usize>, Vec<u8>)| {
            TensorView::new(*dtype, shape.clone(), bytes).expect("bytes as the shape asks for").data().to_vec()
        };
        let (codes, hiddens) = (view(&self.codes), view(&self.hiddens));
        let tensors = [
            ("codes", TensorView::new(self.codes.0, self.codes.1.clone(), &codes).expect("checked")),
            ("frame_hiddens", TensorView::new(self.hiddens.0, self.hiddens.1.clone(), &hiddens).expect("checked")),
        ];
        let bytes = safetensors::serialize(tensors, Some(self.notes.clone())).expect("serialised");
        std::fs::write(path, bytes).expect("written");
    }
}

#[test]
fn each_file_of_something_else_has_its_own_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.frames");
    let checkpoint = Checkpoint::open(music3::demo::unpack(music3::demo::Demo::Random).expect("the demo"))
        .expect("the demo checkpoint");
    let configs = ModelConfigs::read(&checkpoint).expect("its configurations");
    let good = Crafted::good(&configs);
    let read = |crafted: &Crafted| {
        crafted.write(&path);
        let read = SavedFrames::read(&path).and_then(|saved| saved.refuse_other_model(&configs));
        read.map_err(|error| format!("{error} ({:?})", std::error::Error::source(&error).map(ToString::to_string)))
    };
    assert_eq!(read(&good), Ok(()));

    let codebooks = configs.rvq_depth_decoder.num_codebooks;
    let size = codebooks * configs.rvq_depth_decoder.hidden_size;
    let refused = |said: &str, damage: &mut dyn FnMut(&mut Crafted)| {
        let mut crafted = good.clone();
        damage(&mut crafted);
        let message = read(&crafted).expect_err(said);
        assert!(message.contains(said), "{message}");
    };
    let code = |place: usize, code: i32| {
        move |crafted: &mut Crafted| {
            crafted.codes.2[4 * place..4 * place + 4].copy_from_slice(&code.to_le_bytes());
        }
    };
    let floats = |dtype, shape: Vec<usize>| {
        move |crafted: &mut Crafted| {
            let bytes = shape.iter().product::<usize>() * if dtype == Dtype::F64 { 8 } else { 4 };
            crafted.hiddens = (dtype, shape.clone(), vec![0; bytes]);
        }
    };
    refused("holds no frames", &mut |crafted| crafted.notes.clear());
    refused("frames of version 2, expected 1", &mut |crafted| {
        crafted.notes.insert("music3_frames".to_owned(), "2".to_owned());
    });
    refused("does not say where the frames come from", &mut |crafted| {
        crafted.notes.insert("origin".to_owned(), "{}".to_owned());
    });
    refused("tensor `codes` has dtype U32, expected I32", &mut |crafted| crafted.codes.0 = Dtype::U32);
    refused("expected [steps, num_codebooks]", &mut |crafted| crafted.codes.1 = vec![STEPS * codebooks]);
    refused("at least two steps", &mut |crafted| crafted.codes.1 = vec![1, STEPS * codebooks]);
    refused("tensor `frame_hiddens` has dtype F64, expected F32 or BF16", &mut floats(Dtype::F64, vec![1, 3, size]));
    refused("expected [1, frames, num_codebooks·hidden_size]", &mut floats(Dtype::F32, vec![2, 3, size]));
    refused("4 rows of codes and 2 frames", &mut floats(Dtype::F32, vec![1, 2, size]));
    refused("a hidden state of frame 2 is not finite", &mut |crafted| {
        crafted.hiddens.2[4 * size..4 * size + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    refused("decode step 1, codebook c0: code -1 is negative", &mut code(codebooks, -1));
    refused("decode step 0, codebook c0: code 16384 does not exist", &mut code(0, 16_384));
    let codes = configs.rvq_depth_decoder.audio_vocab_size;
    let message = format!("codebook c7: code {codes} does not exist; the model has {codes}");
    refused(&message, &mut code(7, codes as i32));
    refused("another model's: 4 codebooks, this one has 8", &mut |crafted| {
        crafted.codes.1 = vec![STEPS, 4];
        crafted.codes.2.truncate(4 * STEPS * 4);
    });
    refused("values per hidden state, this one has", &mut floats(Dtype::F32, vec![1, 3, 2 * size]));

    // A file that is cut short anywhere, and one without a tensor.
    good.write(&path);
    let bytes = std::fs::read(&path).expect("read");
    for length in [0, 7, 8, 200, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).expect("written");
        assert!(SavedFrames::read(&path).is_err(), "{length} bytes");
    }
}
