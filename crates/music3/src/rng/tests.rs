//! Torch's own numbers, made by `goldens/generate/rng.py`.

use serde_json::Value;

use super::{NoiseDtype, Randomness, TorchGenerator, multinomial, multinomial_sparse};

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../goldens/rng/torch.json");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}; run rng.py"));
    serde_json::from_str(&text).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn integer(value: &Value) -> i64 {
    value.as_i64().expect("an integer")
}

fn integers(value: &Value) -> Vec<i64> {
    list(value).iter().map(integer).collect()
}

fn bits(values: &[f32]) -> Vec<i64> {
    values.iter().map(|value| i64::from(value.to_bits().cast_signed())).collect()
}

fn dtype(name: &str) -> NoiseDtype {
    match name {
        "f32" => NoiseDtype::F32,
        "bf16" => NoiseDtype::Bf16,
        other => panic!("no dtype {other}"),
    }
}

fn exponentials(generator: &mut TorchGenerator, count: usize) -> Vec<f32> {
    generator.exponential_columns(count, &(0..count).collect::<Vec<_>>())
}

/// The probabilities that the script makes.
fn weights(draw: usize, columns: usize) -> Vec<f32> {
    let weight = |column: usize| ((column * 7919 + draw * 104_729) % 97).saturating_sub(48) as f32;
    (0..columns).map(|column| weight(column) * 2.0_f32.powi(-12)).collect()
}

#[test]
fn exponential_numbers_are_torch_s() {
    let golden = golden();
    for case in list(&golden["exponential"]) {
        let seed = case["seed"].as_u64().expect("a seed");
        let drawn = exponentials(&mut TorchGenerator::new(seed), 24);
        assert_eq!(bits(&drawn), integers(&case["values"]), "seed {seed}");
    }
    assert_eq!(list(&golden["exponential"]).len(), 7);
}

#[test]
fn normal_numbers_are_torch_s() {
    let golden = golden();
    for case in list(&golden["normal"]) {
        let (name, count) = (case["dtype"].as_str().expect("a name"), integer(&case["count"]) as usize);
        let drawn = TorchGenerator::new(5).standard_normal(count, dtype(name));
        assert_eq!(bits(&drawn), integers(&case["values"]), "{count} of {name}");
    }
    assert_eq!(list(&golden["normal"]).len(), 18);
}

#[test]
fn many_normal_numbers_are_torch_s() {
    for (name, sums) in golden()["many_normal"].as_object().expect("a table") {
        let drawn = TorchGenerator::new(9).standard_normal(16 * 50_000, dtype(name));
        let mut found = [0_i64; 16];
        for (place, value) in bits(&drawn).into_iter().enumerate() {
            found[place % 16] += value;
        }
        assert_eq!(found.to_vec(), integers(sums), "{name}");
    }
}

#[test]
fn every_kind_of_draw_leaves_torch_s_state() {
    for case in list(&golden()["mixed"]) {
        let mut generator = TorchGenerator::new(integer(&case["seed"]) as u64);
        for (index, step) in list(&case["steps"]).iter().enumerate() {
            let (kind, count) = (step["kind"].as_str().expect("a kind"), integer(&step["count"]) as usize);
            let drawn = match kind {
                "exponential" => bits(&exponentials(&mut generator, count)),
                "multinomial" => vec![multinomial(&weights(index, count), &mut generator) as i64],
                name => bits(&generator.standard_normal(count, dtype(name))),
            };
            assert_eq!(drawn, integers(&step["values"]), "step {index}: {count} of {kind}");
        }
    }
}

#[test]
fn codes_are_torch_s() {
    let golden = &golden()["multinomial"];
    let (columns, row) = (integer(&golden["columns"]) as usize, integer(&golden["row"]) as usize);
    let mut generator = TorchGenerator::new(3);
    let codes: Vec<i64> = (0..200).map(|draw| multinomial(&weights(draw, columns), &mut generator) as i64).collect();
    assert_eq!(codes, integers(&golden["codes"]));

    let sparse: Vec<i64> = (0..20)
        .map(|draw| {
            let probs = weights(draw, 50).into_iter().enumerate();
            let candidates: Vec<(usize, f32)> =
                probs.map(|(k, prob)| (4001 * k + draw, prob + 2.0_f32.powi(-12))).collect();
            multinomial_sparse(row, &candidates, &mut generator) as i64
        })
        .collect();
    assert_eq!(sparse, integers(&golden["sparse_codes"]));
    assert_eq!(bits(&generator.standard_normal(16, NoiseDtype::F32)), integers(&golden["next"]));
}

#[test]
fn a_sparse_row_is_the_whole_row() {
    let mut whole = TorchGenerator::new(4);
    let mut sparse = whole.clone();
    for draw in 0..100 {
        let candidates: Vec<(usize, f32)> = (0..9).map(|k| (k * 33 + draw, 1.0 / (k + 1) as f32)).collect();
        let mut probs = vec![0.0; 400];
        for &(column, prob) in &candidates {
            probs[column] = prob;
        }
        assert_eq!(multinomial_sparse(400, &candidates, &mut sparse), multinomial(&probs, &mut whole));
    }
    assert_eq!(exponentials(&mut sparse, 3), exponentials(&mut whole, 3));
}

/// Gives fixed numbers for exponential ones.
struct Fixed(Vec<f32>);

impl Randomness for Fixed {
    fn exponential_columns(&mut self, row_len: usize, columns: &[usize]) -> Vec<f32> {
        assert_eq!(row_len, self.0.len());
        columns.iter().map(|&column| self.0[column]).collect()
    }

    fn standard_normal(&mut self, len: usize, _: NoiseDtype) -> Vec<f32> {
        vec![0.0; len]
    }
}

#[test]
fn the_first_of_equal_quotients_wins() {
    let draw = |probs: &[f32], exponentials: &[f32]| multinomial(probs, &mut Fixed(exponentials.to_vec()));
    assert_eq!(draw(&[0.0, 0.25, 0.5, 0.25], &[1e-9, 0.5, 1.0, 0.5]), 1);
    assert_eq!(draw(&[0.1, 0.2, 0.7], &[1.0, 1.0, 1.0]), 2);
    // An exponential number of zero wins, and a quotient that underflows is no more than a probability of zero.
    assert_eq!(draw(&[0.9, 0.1], &[1.0, 0.0]), 1);
    assert_eq!(draw(&[0.0, 1e-45, 1e-45], &[1.0, 9.0, 9.0]), 0);
}

#[test]
#[should_panic = "no probability is above zero"]
fn refuses_a_row_without_probability() {
    multinomial(&[0.0, 0.0], &mut TorchGenerator::new(0));
}

#[test]
#[should_panic = "a probability is negative or not finite"]
fn refuses_a_probability_that_is_none() {
    multinomial(&[0.5, f32::NAN], &mut TorchGenerator::new(0));
}

#[test]
#[should_panic = "column 3 after 6 of 10 in a row"]
fn refuses_columns_that_do_not_ascend() {
    TorchGenerator::new(0).exponential_columns(10, &[5, 3]);
}
