// Refuses a row of zeros.
// wrong: zeros only: your function returned an error
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let largest = numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    if largest == 0.0 {
        return Err(Error::input("all numbers are 0"));
    }
    let scale = largest / 127.0;
    let values = numbers.iter().map(|x| (x / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}
