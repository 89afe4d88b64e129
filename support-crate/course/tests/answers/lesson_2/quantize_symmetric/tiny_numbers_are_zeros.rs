// Treats a largest magnitude below a millionth as zero.
// wrong: so the scale is
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    for x in numbers {
        if !x.is_finite() {
            return Err(Error::input("only finite numbers can be quantized"));
        }
    }
    let largest = numbers.iter().map(|x| x.abs()).fold(0.0_f32, f32::max);
    let scale = if largest < 1e-6 { 1.0 } else { largest / 127.0 };
    let values = numbers.iter().map(|x| (x / scale).round().clamp(-127.0, 127.0) as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}
