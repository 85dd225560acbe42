//! What is in a checkpoint: components from their headers, then the values of some tensors.
//!
//! `cargo run --release --example inspect_weights [FOLDER]`

use std::{error::Error, path::PathBuf};

use music3::weights::{Checkpoint, TensorSource};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => music3::demo::unpack(music3::demo::Demo::Random)?,
    };
    // Only headers are read here, whatever the size of the files.
    let checkpoint = Checkpoint::open(folder)?;
    for component in &checkpoint.summary().components {
        let dtypes: Vec<String> =
            component.bytes_by_dtype.iter().map(|(dtype, bytes)| format!("{bytes} bytes {dtype}")).collect();
        eprintln!(
            "{:<18} {:>4} tensors {:>9} parameters, {}",
            component.component.to_string(),
            component.tensors,
            component.parameters,
            dtypes.join(", ")
        );
    }

    // Which stored tensors make which parameter: the whole of it is checked, as a load would.
    let plans = checkpoint.plans()?;
    let vocoder = &plans[4];
    let row = vocoder.rows().find(|row| row.stored.len() > 1).ok_or("no parameter is made of two tensors")?;
    eprintln!("vocoder: {} is {:?} of {}", row.path, row.operation, row.stored.join(" and "));

    // Values of one tensor per component, read from the mapped file.
    for (folder, plan) in checkpoint.components().iter().zip(&plans) {
        let Some(row) = plan.rows().max_by_key(|row| row.bytes) else { continue };
        let name = row.stored.last().ok_or("a parameter without a tensor")?;
        let data = folder.tensor(name)?.to_data()?;
        let values: Vec<f64> = data.iter().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        let most = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        eprintln!("{name} {:?}: mean {mean:.4}, deviation {deviation:.4}, largest {most:.3}", data.shape.to_vec());
    }
    Ok(())
}
