//! The tiny transformer whose gradients torch has computed: `goldens/gradients`, made by `gradients.py`.

use std::ops::ControlFlow;

use burn::tensor::{Tensor, TensorData, backend::Backend};
use music3_model::{Transformer1DModel, Transformer1DModelConfig};
use music3_nn::{Width, ops};
use music3_tests::goldens;
use music3_weights::{Component, Plan, SafetensorsFile, TensorSource, load_module};
use serde_json::Value;

/// The file, and what stands in it.
pub(crate) struct Tiny {
    pub(crate) file: SafetensorsFile,
    config: Value,
}

impl Tiny {
    pub(crate) fn open() -> Self {
        let path = goldens("gradients/transformer.safetensors");
        let file = SafetensorsFile::open(path).unwrap_or_else(|error| panic!("{error}"));
        let made: Value = serde_json::from_str(file.note("made").expect("a note")).expect("JSON");
        Self { config: made["config"].clone(), file }
    }

    /// Returns how each parameter is called upstream, by its path.
    pub(crate) fn plan(&self) -> Plan {
        let weights = self.file.with_prefix("w.");
        Plan::new(Component::Transformer, &self.config, &weights).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the module as it is before weights are loaded.
    pub(crate) fn fresh<B: Backend>(&self, width: Width, device: &B::Device) -> Transformer1DModel<B> {
        let config: Transformer1DModelConfig = serde_json::from_value(self.config.clone()).expect("upstream's keys");
        config.init(width, device).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the module with torch's weights.
    pub(crate) fn module<B: Backend>(&self, width: Width, device: &B::Device) -> Transformer1DModel<B> {
        let (module, weights) = (self.fresh(width, device), self.file.with_prefix("w."));
        load_module::<B, _>(module, &self.plan(), &weights, width, &mut |_| ControlFlow::Continue(()))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a tensor of the file as f32 values.
    pub(crate) fn data(&self, name: &str) -> TensorData {
        self.file.tensor(name).and_then(|view| view.to_data()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns latents, times and condition.
    pub(crate) fn inputs<B: Backend>(
        &self,
        width: Width,
        device: &B::Device,
    ) -> (Tensor<B, 3>, Tensor<B, 1>, Tensor<B, 3>) {
        let tensor = |name| ops::from_data(self.data(name), width, device);
        (tensor("in.latents"), ops::from_data(self.data("in.timestep"), width, device), tensor("in.condition"))
    }

    /// Returns the velocity of the inputs.
    pub(crate) fn velocity<B: Backend>(&self, module: &Transformer1DModel<B>, device: &B::Device) -> Tensor<B, 3> {
        let (latents, timestep, condition) = self.inputs(module.width(), device);
        module.forward(latents, timestep, condition)
    }
}
