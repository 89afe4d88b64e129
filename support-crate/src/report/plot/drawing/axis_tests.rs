use super::*;
use proptest::prelude::*;

fn labels(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
}

#[test]
fn measured_values_start_at_zero_and_end_on_a_tick() {
    let axis = Axis::measured(&[0.12, 0.33], 6);
    assert_eq!(labels(&axis), ["0", "0.1", "0.2", "0.3", "0.4"]);
    assert_eq!((axis.low, axis.high), (0.0, 0.4));
    assert_eq!(axis.ticks[3].value, 0.3);
}

#[test]
fn thousands_millions_and_small_numbers_stay_short() {
    assert_eq!(labels(&Axis::measured(&[4000.0], 5)), ["0", "2,000", "4,000", "6,000"]);
    assert_eq!(labels(&Axis::measured(&[3.1e6], 6)), ["0", "1M", "2M", "3M", "4M"]);
    assert_eq!(labels(&Axis::measured(&[3.1e-6], 6)), ["0", "1e-6", "2e-6", "3e-6", "4e-6"]);
}

#[test]
fn lengths_begin_at_zero_and_counts_have_whole_ticks() {
    let axis = Axis::varied(&[8.0, 1024.0], 8);
    assert_eq!(axis.low, 0.0);
    assert_eq!(labels(&axis), ["0", "200", "400", "600", "800", "1,000"]);
    assert_eq!(labels(&Axis::varied(&[1.0, 2.0, 3.0], 8)), ["1", "2", "3"]);
    assert_eq!(labels(&Axis::varied(&[7.0], 8)), ["6", "7", "8"]);
}

#[test]
fn a_logarithmic_axis_has_round_ticks_or_those_of_the_data() {
    assert_eq!(labels(&Axis::logarithmic(&[1.0, 1000.0], 6)), ["1", "10", "100", "1,000"]);
    let lengths = [8.0, 64.0, 512.0];
    let axis = Axis::logarithmic(&lengths, 6).with_ticks_at(&lengths, &lengths, 13.0, 600.0);
    assert_eq!(labels(&axis), ["8", "64", "512"]);
    assert!((axis.position(64.0) - 0.5).abs() < 1e-12);
    let with_ends = [2.0, 8.0, 64.0, 512.0];
    let wide = Axis::logarithmic(&with_ends, 6).with_ticks_at(&lengths, &with_ends, 13.0, 600.0);
    assert_eq!(labels(&wide), ["8", "64", "512"]);
    assert_eq!([2.0, 512.0, 1.0, 0.0].map(|value| wide.has(value)), [true, true, false, false]);
    assert_eq!(labels(&Axis::logarithmic(&[3.1, 3.3], 6)), ["3.10", "3.15", "3.20", "3.25", "3.30"]);
    assert_eq!(
        labels(&Axis::logarithmic(&[3e-4, 700.0], 9)),
        ["0.0002", "0.001", "0.01", "0.1", "1", "10", "100", "1,000"]
    );
    assert_eq!(labels(&Axis::logarithmic(&[0.3, 30.0], 9)), ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]);
}

#[test]
fn sizes_that_double_have_ticks_at_powers_of_two() {
    let labelled = |sizes: &[f64], length| {
        let axis = Axis::logarithmic(sizes, 9).with_ticks_at(sizes, sizes, 13.0, length);
        labels(&axis).join(" ")
    };
    let sizes: Vec<f64> = (0..11).map(|power| f64::from(1 << power)).collect();
    assert_eq!(labelled(&sizes, 600.0), "1 2 4 8 16 32 64 128 256 512 1,024");
    assert_eq!(labelled(&sizes, 250.0), "1 4 16 64 256 1,024");
    let others: Vec<f64> = (10..60).map(f64::from).collect();
    assert_eq!(labelled(&others, 600.0), "10 20 50 100");
}

#[test]
fn labels_without_room_are_left_out_evenly() {
    let names: Vec<String> = (0..30).map(|layer| format!("layer {layer}")).collect();
    let mut axis = Axis::categories(&names);
    axis.thin(600.0, |label| text_width(label, 13.0) + 8.0);
    let kept: Vec<&str> = labels(&axis).into_iter().filter(|label| !label.is_empty()).collect();
    assert_eq!(kept, ["layer 0", "layer 5", "layer 10", "layer 15", "layer 20", "layer 25"]);
}

#[test]
fn tick_labels_of_their_own_keep_the_digits_that_matter() {
    let label = |value| Tick::alone(value).label;
    assert_eq!(label(0.05), "0.05");
    assert_eq!(label(1024.0), "1,024");
    assert_eq!(label(2.5e6), "2.5M");
    assert_eq!(label(1e9), "1G");
    assert_eq!(label(1e-7), "1e-7");
}

#[test]
fn values_that_are_all_alike_get_a_range() {
    for value in [0.0, -0.0, 1.0, -3.5, 1e-300, -5e-101, 1e99, -1e99, 5e15] {
        for axis in [Axis::measured(&[value; 3], 6), Axis::varied(&[value; 3], 6)] {
            assert!(axis.low < axis.high, "{value}: {axis:?}");
            assert!((axis.low..=axis.high).contains(&value), "{value}: {axis:?}");
        }
    }
}

fn sensible(axis: &Axis, values: &[f64], most_ticks: usize) -> Result<(), TestCaseError> {
    prop_assert!(axis.low.is_finite() && axis.high.is_finite() && axis.low < axis.high);
    prop_assert!(values.iter().all(|v| (axis.low..=axis.high).contains(v)), "{axis:?}");
    prop_assert!(axis.ticks.len() <= most_ticks, "{} ticks: {axis:?}", axis.ticks.len());
    prop_assert!(!axis.ticks.is_empty(), "{axis:?}");
    prop_assert!(axis.ticks.windows(2).all(|pair| pair[0].value < pair[1].value));
    let longest = axis.ticks.iter().map(|tick| tick.label.len()).max();
    prop_assert!(longest <= Some(16), "{axis:?}");
    Ok(())
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        -1e3f64..1e3,
        (-100f64..100.0, -1.0f64..1.0).prop_map(|(e, m)| m * 10f64.powf(e)),
        Just(0.0),
        (0u32..5000).prop_map(f64::from),
    ]
}

proptest! {
    #[test]
    fn linear_axes_cover_the_data_with_few_ticks(
        values in prop::collection::vec(any_value(), 1..20),
        most in 4usize..12,
    ) {
        let axis = Axis::measured(&values, most);
        sensible(&axis, &values, most)?;
        prop_assert!(axis.low <= 0.0 && axis.high >= 0.0);
        sensible(&Axis::varied(&values, most), &values, most)?;
    }

    #[test]
    fn logarithmic_axes_cover_the_data_with_few_ticks(
        exponents in prop::collection::vec(-99f64..99.0, 1..20),
        most in 4usize..12,
    ) {
        let values: Vec<f64> = exponents.iter().map(|e| 10f64.powf(*e)).collect();
        let axis = Axis::logarithmic(&values, most);
        sensible(&axis, &values, most)?;
        let ends = [axis.ticks.first(), axis.ticks.last()].map(|tick| tick.map(|tick| tick.value));
        prop_assert_eq!(ends, [Some(axis.low), Some(axis.high)]);
    }

    #[test]
    fn narrow_ranges_far_from_zero_end(centre in -1e15f64..1e15, width in 0f64..1e3) {
        let values = [centre, centre + width];
        let axis = Axis::varied(&values, 6);
        prop_assert!(axis.low < axis.high && axis.ticks.len() <= 6);
    }
}
