// Computes in float64 and rounds the scale at the end.
// right
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    let mut largest = 0.0_f64;
    for x in numbers {
        if !x.is_finite() {
            return Err(Error::input("not a number"));
        }
        largest = largest.max(f64::from(*x).abs());
    }
    let scale = if numbers.is_empty() || largest == 0.0 { 0.25 } else { largest / 127.0 };
    let values = numbers.iter().map(|x| (f64::from(*x) / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale: scale as f32, zero_point: 0 })
}
