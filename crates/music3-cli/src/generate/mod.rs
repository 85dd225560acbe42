//! `music3 generate`: a request, a song, a report.

mod again;
mod announce;
mod codes;
mod files;
mod follow;
mod hints;
mod making;
mod order;
mod report;

use std::process::ExitCode;

use music3::{
    FramesFile, ModelSource, Outcome, Recipe, RecipeModel, RecipeParts, codes_sha256,
    demo::{self, Demo},
    file_sha256,
};

pub(crate) use self::order::{DEMO_CAPTION, DEMO_LYRICS, no_such_folder};
use self::{
    again::Sameness,
    making::{Made, Making},
    order::{Order, Source},
    report::{Report, Verdicts},
};
use crate::{
    args::GenerateArgs,
    backends::Selected,
    failure::Failure,
    interrupt::Interrupt,
    terminal::{answer, say},
};

/// Makes a song.
pub(crate) fn run(args: GenerateArgs) -> Result<ExitCode, Failure> {
    // 1. Everything that can be refused without a device or a model.
    let order = Order::new(args)?;
    let interrupt = Interrupt::listen();
    // 2. Where it runs, and on what.
    let backend = Selected::choose(order.backend)?;
    let folder = order.checkpoint.unpacked()?;
    // 3. The song.
    let making = Making { order: &order, folder: &folder, backend, interrupt: interrupt.clone() };
    let made = backend.dispatch(making)?;
    let frames_file = order.frames_file()?;
    let describe = |wav_sha256: &str| recipe(&order, backend, &made, (frames_file, wav_sha256));
    let written = order.files.write(&made.song, &interrupt, describe)?;
    // 4. What became of it.
    let verdicts = Verdicts {
        again: order.again.as_ref().map(|again| Sameness::of(&made.song, &written.wav_sha256, &again.recipe.outcome)),
        // Only codes that this run has drawn say something about it.
        upstream: match (&order.checkpoint, &order.frames) {
            (Source::Demo(Demo::Tunes), None) => {
                demo::compare_with_upstream(&order.request, order.precision, &made.song)
            }
            _ => None,
        },
    };
    codes::told(&made.song).into_iter().for_each(|line| tracing::info!("{line}"));
    let report = Report::new(&order, backend, &made, verdicts);
    if order.speaks() {
        say(report.summary());
    }
    if order.json { answer(report.to_json()) } else { answer(order.files.output.display()) }?;
    Ok(ExitCode::SUCCESS)
}

/// Returns everything that is needed to make a song again.
fn recipe(
    order: &Order,
    backend: Selected,
    made: &Made,
    (frames_file, wav_sha256): (Option<FramesFile>, &str),
) -> Recipe {
    let source = match &order.checkpoint {
        Source::Demo(Demo::Tunes) => ModelSource::Demo,
        Source::Demo(Demo::Random) => ModelSource::RandomDemo,
        Source::Folder(folder) => {
            // From wherever the recipe is used.
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            ModelSource::Folder(folder.to_string_lossy().into_owned())
        }
    };
    Recipe::new(RecipeParts {
        model: RecipeModel { source, fingerprint: made.fingerprint.clone() },
        request: order.request.clone(),
        precision: order.precision,
        backend: backend.name().to_owned(),
        matmul: order.products.matmul().to_string(),
        reference: order.products.reference,
        frames_file,
        outcome: Outcome {
            frames: made.song.codes.len(),
            finish: made.song.finish,
            codes_sha256: codes_sha256(&made.song.codes),
            wav_sha256: wav_sha256.to_owned(),
        },
    })
}

impl Order {
    /// Returns which file the song was rendered from.
    fn frames_file(&self) -> Result<Option<FramesFile>, Failure> {
        let Some(frames) = &self.frames else { return Ok(None) };
        let path = frames.path();
        let unreadable = |error| Failure::run(format!("{}: cannot be read: {error}", path.display()));
        let sha256 = file_sha256(path).map_err(unreadable)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Some(FramesFile { path: path.to_string_lossy().into_owned(), sha256 }))
    }
}
