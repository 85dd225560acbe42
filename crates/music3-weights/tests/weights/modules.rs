//! The modules of the model, loaded from both layouts.

use std::ops::ControlFlow;

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Bytes, Tensor, backend::Backend},
};
use music3_model::{ConditionMixConfig, DepthDecoderConfig, Qwen3Config, Transformer1DModelConfig, VocoderConfig};
use music3_nn::Width;
use music3_testkit::Flex;
use music3_weights::{Checkpoint, Component};
use serde::de::DeserializeOwned;

use crate::native::{both, open};

/// The bytes of every parameter, in the order of the module.
#[derive(Default)]
struct Values(Vec<Bytes>);

impl<B: Backend> ModuleVisitor<B> for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.push(param.val().into_data().bytes);
    }
}

/// Loads a component into its module and returns the module's values.
fn loaded<C: DeserializeOwned, M: Module<Flex>>(
    checkpoint: &Checkpoint,
    (component, width): (Component, Width),
    init: impl Fn(C) -> M,
) -> Vec<Bytes> {
    let component = checkpoint.component(component);
    let config = serde_json::from_value(component.config().clone()).expect("a config of this component");
    let mut go_on = |_: music3_weights::Progress<'_>| ControlFlow::Continue(());
    let module = component.load::<Flex, M>(init(config), width, &mut go_on).unwrap_or_else(|error| panic!("{error}"));
    let mut values = Values::default();
    module.visit(&mut values);
    values.0
}

#[test]
fn both_layouts_make_the_same_modules_to_the_bit() {
    let (diffusers, native) = both();
    let (diffusers, native) = (open(&diffusers), open(&native));
    let device = Default::default();
    for width in [Width::F32, Width::Bf16] {
        macro_rules! same {
            ($component:ident, $config:ty, $parameters:literal) => {
                let [left, right] = [&diffusers, &native].map(|checkpoint| {
                    loaded(checkpoint, (Component::$component, width), |config: $config| {
                        config.init::<Flex>(width, &device).unwrap_or_else(|error| panic!("{error}"))
                    })
                });
                assert_eq!(left.len(), $parameters, "{}", Component::$component);
                assert!(left == right, "{} in {width}", Component::$component);
            };
        }
        same!(LanguageModel, Qwen3Config, 25);
        same!(RvqDepthDecoder, DepthDecoderConfig, 29);
        same!(ConditionEncoder, ConditionMixConfig, 4);
        same!(Transformer, Transformer1DModelConfig, 33);
        same!(Vocoder, VocoderConfig, 91);
    }
}
