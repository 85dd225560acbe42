//! Which of the models that the program carries, and which of its tunes.

use clap::ValueEnum;
use music3::demo::{Demo, Tune, tunes};

/// What `--demo` plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoArg {
    /// Twinkle, Twinkle, Little Star, on a music box.
    Twinkle,
    /// Ode to Joy, on an organ.
    OdeToJoy,
    /// Frère Jacques, on a guitar.
    FrereJacques,
    /// Mary Had a Little Lamb, on a flute.
    Mary,
    /// Another model, of random values: noise, to as many seconds as are asked for.
    Random,
}

impl DemoArg {
    /// Returns the model.
    pub(crate) fn demo(self) -> Demo {
        match self {
            Self::Random => Demo::Random,
            Self::Twinkle | Self::OdeToJoy | Self::FrereJacques | Self::Mary => Demo::Tunes,
        }
    }

    /// Returns the tune, if the model plays any.
    pub(crate) fn tune(self) -> Option<Tune> {
        let name = self.to_possible_value()?.get_name().to_owned();
        tunes().into_iter().find(|tune| tune.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tune_that_the_model_plays_can_be_named() {
        let named = DemoArg::value_variants().iter().filter_map(|arg| Some((arg.demo(), arg.tune()?.name)));
        let expected: Vec<_> = tunes().into_iter().map(|tune| (Demo::Tunes, tune.name)).collect();
        assert_eq!(named.collect::<Vec<_>>(), expected);
        assert_eq!((DemoArg::Random.demo(), DemoArg::Random.tune()), (Demo::Random, None));
    }
}
