//! `Autodiff<B>` as the transformer's backend: its gradients are torch's.

use std::collections::BTreeMap;

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Tensor, TensorData, backend::Backend},
};
use burn_autodiff::Autodiff;
use music3::{ComputePath, Matmul};
use music3_nn::{Width, ops};
use music3_testkit::on_each_backend;

use crate::tiny::Tiny;

on_each_backend!(pass_through_rounding_to_bf16, reach_parameters_that_were_drawn_in_bf16, are_computed_with_plain_ops,);

/// Not on CUDA: behind `Autodiff` products are CubeCL's own there, which may stage f32 operands as TF32.
mod are_torchs {
    #[cfg(feature = "flex")]
    #[test]
    fn on_flex() {
        super::are_torchs::<music3_testkit::Flex>(&Default::default());
    }

    #[cfg(feature = "ndarray")]
    #[test]
    fn on_ndarray() {
        super::are_torchs::<music3_testkit::NdArray>(&Default::default());
    }
}

/// The largest error of a gradient against torch's in f64, in units of the rms of its tensor. Measured: 1.4e-5 on flex,
/// 9.2e-6 on ndarray; torch's own f32: 7.5e-6.
const MAX_ERROR: f64 = 4e-5;

/// Gradients by parameter path.
type Gradients = BTreeMap<String, TensorData>;

struct Collect<'a, B: Backend> {
    gradients: &'a <Autodiff<B> as burn::tensor::backend::AutodiffBackend>::Gradients,
    path: Vec<String>,
    found: Gradients,
}

impl<B: Backend> ModuleVisitor<Autodiff<B>> for Collect<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Autodiff<B>, D>>) {
        let path = self.path.join(".");
        let gradient = param.val().grad(self.gradients).unwrap_or_else(|| panic!("no gradient reaches {path}"));
        self.found.insert(path, ops::widen(gradient).into_data());
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
}

/// Returns the loss and its gradients: by every parameter, then by latents and condition under those names.
fn gradients<B: Backend>(tiny: &Tiny, width: Width, device: &B::Device) -> (f32, Gradients) {
    let module = tiny.module::<Autodiff<B>>(width, device);
    let (latents, timestep, condition) = tiny.inputs::<Autodiff<B>>(width, device);
    let (latents, condition) = (latents.require_grad(), condition.require_grad());
    let velocity = ops::widen(module.forward(latents.clone(), timestep, condition.clone()));
    let target = ops::from_data(tiny.data("in.target"), Width::F32, device);
    let difference = velocity - target;
    let loss = (difference.clone() * difference).mean();
    let recorded = loss.backward();
    let mut collect = Collect { gradients: &recorded, path: Vec::new(), found: BTreeMap::new() };
    module.visit(&mut collect);
    let mut found = collect.found;
    for (name, input) in [("latents", latents), ("condition", condition)] {
        let gradient = input.grad(&recorded).unwrap_or_else(|| panic!("no gradient reaches {name}"));
        found.insert(name.to_owned(), ops::widen(gradient).into_data());
    }
    (loss.into_data().iter::<f32>().next().expect("a loss"), found)
}

/// Returns the largest and the mean difference, in units of the rms of `exact`.
fn error(found: &TensorData, exact: &TensorData) -> (f64, f64) {
    assert_eq!(found.shape, exact.shape);
    let pairs: Vec<(f64, f64)> = found.iter::<f64>().zip(exact.iter::<f64>()).collect();
    let rms = (pairs.iter().map(|(_, exact)| exact * exact).sum::<f64>() / pairs.len() as f64).sqrt();
    assert!(rms > 0.0, "a gradient of zeros proves nothing");
    let errors: Vec<f64> = pairs.iter().map(|(found, exact)| (found - exact).abs() / rms).collect();
    assert!(errors.iter().all(|error| error.is_finite()));
    (errors.iter().copied().fold(0.0, f64::max), errors.iter().sum::<f64>() / errors.len() as f64)
}

fn are_torchs<B: Backend>(device: &B::Device) {
    let tiny = Tiny::open();
    let (loss, found) = gradients::<B>(&tiny, Width::F32, device);
    let upstream = tiny.data("out.loss").iter::<f32>().next().expect("a loss");
    eprintln!("loss {loss}, torch's {upstream}");
    assert!((loss - upstream).abs() <= 1e-5 * upstream);

    // Each gradient has its counterpart in the file, and the other way round.
    let mut names: BTreeMap<String, String> =
        tiny.plan().rows().map(|row| (row.path.clone(), format!("grad.{}", row.stored[0]))).collect();
    names.extend(["latents", "condition"].map(|name| (name.to_owned(), format!("grad_in.{name}"))));
    assert!(names.keys().eq(found.keys()));
    assert_eq!(names.len(), tiny.file.names().filter(|name| name.starts_with("out.grad")).count());

    let (mut worst, mut torch_worst) = (0.0_f64, 0.0_f64);
    eprintln!(
        "{:<46} {:>9} {:>9} {:>9}  in units of the gradient's rms, against torch in f64",
        "", "max", "mean", "torch"
    );
    for (path, name) in &names {
        let exact = tiny.data(&format!("out_f64.{name}"));
        let (max, mean) = error(&found[path], &exact);
        let (torch, _) = error(&tiny.data(&format!("out.{name}")), &exact);
        eprintln!("{name:<46} {max:>9.1e} {mean:>9.1e} {torch:>9.1e}");
        (worst, torch_worst) = (worst.max(max), torch_worst.max(torch));
    }
    eprintln!("worst {worst:.1e}, torch's own f32 {torch_worst:.1e}");
    assert!(worst <= MAX_ERROR, "{worst:e}");
}

fn pass_through_rounding_to_bf16<B: Backend>(device: &B::Device) {
    let tiny = Tiny::open();
    let (_, exact) = gradients::<B>(&tiny, Width::F32, device);
    let (_, found) = gradients::<B>(&tiny, Width::Bf16, device);
    let worst =
        exact.iter().map(|(path, exact)| (error(&found[path], exact).1, path)).max_by(|a, b| a.0.total_cmp(&b.0));
    let (worst, path) = worst.expect("gradients");
    eprintln!("{path}: mean difference between bf16 and f32 {worst:.1e}");
    // A gradient that stopped at a rounding would be missing, or off by its own size.
    assert!(worst < 0.25, "{path}: {worst}");

    // What is recorded is rounded as what is not, ties and what bf16 cannot hold included.
    let values =
        [0x3f80_8000_u32, 0x3f80_8001, 0x3f81_8000, 0xbf80_8001, 0x0000_8001, 0x7f7f_8000, 0x7f80_0000, 0x8000_0000];
    let data = TensorData::from(values.map(f32::from_bits));
    let plain: Tensor<B, 1> = ops::round(Tensor::from_data(data.clone(), device), Width::Bf16);
    let recorded: Tensor<Autodiff<B>, 1> = Tensor::from_data(data, device);
    let recorded = ops::round(recorded.require_grad(), Width::Bf16);
    let bits = |data: TensorData| data.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>();
    let (plain, recorded) = (bits(ops::widen(plain).into_data()), bits(ops::widen(recorded).into_data()));
    // −0 + 0 is 0: the one value whose sign is lost.
    assert_eq!(plain[..7], recorded[..7]);
    assert_eq!(recorded[7] << 1, 0);
}

fn reach_parameters_that_were_drawn_in_bf16<B: Backend>(device: &B::Device) {
    let tiny = Tiny::open();
    let module = tiny.fresh::<Autodiff<B>>(Width::Bf16, device);
    let gradients = ops::widen(tiny.velocity(&module, device)).powi_scalar(2).mean().backward();
    let mut collect = Collect { gradients: &gradients, path: Vec::new(), found: BTreeMap::new() };
    module.visit(&mut collect);
    assert_eq!(collect.found.len(), tiny.plan().rows().len());
}

fn are_computed_with_plain_ops<B: Backend>(_: &B::Device) {
    // A kernel records nothing: it must not be found behind `Autodiff`, whatever it is chosen by.
    assert_eq!(ComputePath::of::<Autodiff<B>>(), ComputePath::Plain);
    Matmul::Tf32.scope(|| assert_eq!(Matmul::of::<Autodiff<B>>(), Matmul::Strict));
}
