use super::*;
use crate::compare::Equality;

fn judged(rule: Rule, ours: &[f32], upstream: &[f32], grid: Grid) -> Judgement {
    rule.judge(&[Pair { ours, upstream, grid, equality: Equality::Exact }], NanPolicy::Refuse)
}

fn control_on(grid: Grid, ours: &[f32], upstream: &[f32]) -> (Grid, Figures) {
    (grid, Figures::of(Pair { ours, upstream, grid, equality: Equality::Exact }, NanPolicy::Refuse))
}

fn control(ours: &[f32], upstream: &[f32]) -> (Grid, Figures) {
    control_on(Grid::Bf16, ours, upstream)
}

#[test]
fn the_f32_gate_is_a_part_of_the_value_and_of_the_rms() {
    let upstream = vec![1.0f32; 1000];
    let off = |by: f32| {
        let mut ours = upstream.clone();
        ours[7] += by;
        judged(Rule::F32 { k: 1e-5 }, &ours, &upstream, Grid::F32)
    };
    assert!(off(1.8e-5).passed());
    assert!(!off(2.2e-5).passed());
    let everywhere: Vec<f32> = upstream.iter().map(|value| value + 5e-6).collect();
    let judgement = judged(Rule::F32 { k: 1e-5 }, &everywhere, &upstream, Grid::F32);
    assert!(judgement.reasons[0].starts_with("mean |d|"), "{:?}", judgement.reasons);
}

#[test]
fn the_control_gate_allows_a_fraction_of_what_the_kernels_differ_by() {
    let upstream = vec![1.0f32; 400];
    let shifted = |count: usize, by: f32| {
        let shift = |(index, value): (usize, &f32)| if index < count { value + by } else { *value };
        upstream.iter().enumerate().map(shift).collect::<Vec<f32>>()
    };
    let rule = Rule::for_bf16(&[control(&shifted(100, 1.0 / 128.0), &upstream)], Scale::Reduced);
    let passed = |ours: Vec<f32>| judged(rule, &ours, &upstream, Grid::Bf16).passed();
    assert!(passed(shifted(25, 1.0 / 128.0)));
    assert!(!passed(shifted(26, 1.0 / 128.0)), "the mean is too large");
    assert!(!passed(shifted(34, 1.0 / 512.0)), "too many differ");
    assert!(!passed(shifted(1, 1.0 / 64.0)), "one differs too much");
}

#[test]
fn where_the_kernels_agree_almost_everything_must() {
    let upstream = vec![1.0f32; 3000];
    let rule = Rule::for_bf16(&[control(&upstream, &upstream)], Scale::Full);
    assert_eq!(rule, Rule::ControlZero);
    let shifted = |count: usize, by: f32| {
        let mut ours = upstream.clone();
        ours[..count].iter_mut().for_each(|value| *value += by);
        judged(rule, &ours, &upstream, Grid::Bf16).passed()
    };
    assert!(shifted(3, 1.0 / 128.0), "one ulp");
    assert!(!shifted(4, 1.0 / 128.0), "more than one in a thousand");
    assert!(!shifted(1, 1.0 / 64.0), "two ulps, and more than a step at the output's size");
}

#[test]
fn a_small_value_may_be_off_by_a_step_at_the_outputs_size() {
    let mut upstream = vec![1.0f32; 1000];
    upstream[0] = 0.001;
    let mut ours = upstream.clone();
    ours[0] = 0.002;
    assert!(judged(Rule::ControlZero, &ours, &upstream, Grid::Bf16).passed());
    ours[0] = 0.006;
    assert!(!judged(Rule::ControlZero, &ours, &upstream, Grid::Bf16).passed());
}

#[test]
fn at_full_scale_the_control_itself_passes_and_twice_as_much_does_not() {
    let upstream = vec![1.0f32; 100];
    let off = |by: f32| vec![1.0 + by; 100];
    let rule = Rule::for_bf16(&[control(&off(1.0 / 128.0), &upstream)], Scale::Full);
    assert!(judged(rule, &off(1.0 / 128.0), &upstream, Grid::Bf16).passed());
    assert!(!judged(rule, &off(1.0 / 64.0), &upstream, Grid::Bf16).passed());
}

#[test]
fn at_full_scale_the_share_of_equal_values_counts_in_bf16_and_not_in_f32() {
    let upstream = vec![1.0f32; 1000];
    // The control differs in 90 %, by 1/64; what is judged differs everywhere, by as much or by less.
    let mut other = vec![1.0 + 1.0 / 64.0; 1000];
    other[..100].fill(1.0);
    let off = |by: f32| vec![1.0 + by; 1000];
    let rule_on = |grid| Rule::for_bf16(&[control_on(grid, &other, &upstream)], Scale::Full);
    let judged = |by: f32, grid| judged(rule_on(grid), &off(by), &upstream, grid);
    let in_bf16 = judged(1.0 / 128.0, Grid::Bf16);
    assert!(in_bf16.reasons.len() == 1 && in_bf16.reasons[0].starts_with("share differing"), "{in_bf16:?}");
    let in_f32 = judged(1.0 / 128.0, Grid::F32);
    assert!(in_f32.passed(), "{in_f32:?}");
    assert!(in_f32.bound.differing.is_none() && !in_f32.bound.to_string().contains("differing"));
    let further = judged(1.2 / 64.0, Grid::F32);
    assert!(further.reasons.len() == 1 && further.reasons[0].starts_with("mean |d|"), "{further:?}");
    let mut one = upstream.clone();
    one[3] += 2.1 / 64.0;
    let one = self::judged(rule_on(Grid::F32), &one, &upstream, Grid::F32);
    assert!(one.reasons.len() == 1 && one.reasons[0].starts_with("max |d|"), "{one:?}");
}

#[test]
fn in_a_pool_the_share_is_that_of_the_bf16_outputs() {
    let upstream = vec![1.0f32; 1000];
    let off = vec![1.0 + 1.0 / 64.0; 1000];
    let mut most = off.clone();
    most[..100].fill(1.0);
    let rule = Rule::for_bf16(&[control(&most, &upstream), control_on(Grid::F32, &off, &upstream)], Scale::Full);
    let passed = |bf16: &[f32]| {
        let pair = |ours, grid| Pair { ours, upstream: &upstream, grid, equality: Equality::Exact };
        rule.judge(&[pair(bf16, Grid::Bf16), pair(&off, Grid::F32)], NanPolicy::Refuse).passed()
    };
    assert!(passed(&most));
    assert!(!passed(&off), "all bf16 values differ where a tenth must not");
}

#[test]
fn no_gate_lets_a_nan_through() {
    let upstream = vec![1.0f32; 10];
    let mut ours = upstream.clone();
    ours[3] = f32::NAN;
    let (_, some) = control(&[1.0, 1.5], &[1.0, 1.0]);
    let rules = [
        Rule::Exact,
        Rule::F32 { k: 1.0 },
        Rule::F32Published,
        Rule::Control(some),
        Rule::ControlZero,
        Rule::FullScale { control: some, bf16: None },
        Rule::Unbounded,
    ];
    for rule in rules {
        let judgement = judged(rule, &ours, &upstream, Grid::F32);
        assert!(!judgement.passed() && judgement.used > 1.0, "{rule:?}");
    }
}
