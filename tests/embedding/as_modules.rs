//! The components are ordinary Burn modules: records, devices, clones, other backends.

use burn::{
    module::Module,
    record::{BinBytesRecorder, FullPrecisionSettings, HalfPrecisionSettings, Recorder},
    tensor::backend::Backend,
};
use music3::{Music3, Options, demo};
use music3_nn::Width;
use music3_testkit::on_each_backend;

use crate::tiny::Tiny;

on_each_backend!(keep_their_values_in_a_record, move_to_a_device, count_their_parameters);

fn keep_their_values_in_a_record<B: Backend>(device: &B::Device) {
    let tiny = Tiny::open();
    let module = tiny.module::<B>(Width::F32, device);
    let expected = tiny.velocity(&module, device).into_data();
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let bytes = Recorder::<B>::record(&recorder, module.into_record(), ()).expect("a record");
    // A fresh module is filled before anything of it is drawn.
    let again = tiny.fresh::<B>(Width::F32, device);
    let again = again.load_record(Recorder::<B>::load(&recorder, bytes, device).expect("the record"));
    tiny.velocity(&again, device).into_data().assert_eq(&expected, true);

    // In half precision it is another, smaller record of nearly the same model.
    let module = tiny.module::<B>(Width::F32, device);
    let recorder = BinBytesRecorder::<HalfPrecisionSettings>::default();
    let half = Recorder::<B>::record(&recorder, module.into_record(), ()).expect("a record");
    let again = tiny.fresh::<B>(Width::F32, device);
    let again = again.load_record(Recorder::<B>::load(&recorder, half, device).expect("the record"));
    let found = tiny.velocity(&again, device).into_data();
    let differs = found.iter::<f32>().zip(expected.iter::<f32>()).any(|(found, expected)| found != expected);
    assert!(differs, "half precision cannot hold these weights");
    found.assert_approx_eq::<f32>(&expected, burn::tensor::Tolerance::rel_abs(0.05, 0.05));
}

fn move_to_a_device<B: Backend>(device: &B::Device) {
    let tiny = Tiny::open();
    let module = tiny.module::<B>(Width::F32, device);
    let expected = tiny.velocity(&module, device).into_data();
    let moved = module.clone().to_device(device);
    assert_eq!(moved.devices(), std::slice::from_ref(device));
    tiny.velocity(&moved, device).into_data().assert_eq(&expected, true);
    tiny.velocity(&module.fork(device), device).into_data().assert_eq(&expected, true);
}

fn count_their_parameters<B: Backend>(device: &B::Device) {
    let folder = demo::unpack(demo::Demo::Random).expect("the demo checkpoint");
    let music = Music3::<B>::open(&folder, device.clone(), Options::default()).expect("a checkpoint");
    let half = music.load_autoregressive(&mut ()).expect("the first stage");
    let flow = music.load_flow(&mut ()).expect("the second stage");
    let vocoder = music.load_vocoder(&mut ()).expect("the third stage");
    let counted = [
        half.language_model.num_params(),
        half.rvq_depth_decoder.num_params(),
        flow.condition_encoder.num_params(),
        flow.transformer.num_params(),
        vocoder.num_params(),
    ];
    let plans = music.checkpoint().plans().expect("plans");
    let planned = plans.map(|plan| plan.rows().map(|row| row.shape.iter().product::<usize>()).sum::<usize>());
    assert_eq!(counted, planned);
}
