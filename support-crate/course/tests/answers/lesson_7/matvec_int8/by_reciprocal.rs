// Times the reciprocal, scales applied in f64.
// right
fn matvec_int8(values: &[i8], scales: &[f32], x: &[f32], y: &mut [f32]) {
    let mut largest = 0.0_f32;
    for x in x {
        if !x.is_finite() {
            y.fill(f32::NAN);
            return;
        }
        largest = largest.max(x.abs());
    }
    if largest == 0.0 {
        y.fill(0.0);
        return;
    }
    let steps = 127.0 / f64::from(largest);
    let inputs: Vec<i8> = x.iter().map(|x| (f64::from(*x) * steps).round() as i8).collect();
    for (r, y) in y.iter_mut().enumerate() {
        let row = &values[r * x.len()..][..x.len()];
        *y = (f64::from(dot_int8(row, &inputs)) * f64::from(scales[r]) / steps) as f32;
    }
}
