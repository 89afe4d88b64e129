// Multiplies the products out, as fast kernels do: the sums of the values take care of the zero points.
// right
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    let n = x.values.len();
    if n != w.values.len() {
        return Err(Error::input("the vectors differ in length"));
    }
    let (mut products, mut of_x, mut of_w) = (0_i64, 0_i64, 0_i64);
    for i in 0..n {
        let (a, b) = (x.values[i] as i64, w.values[i] as i64);
        products += a * b;
        of_x += a;
        of_w += b;
    }
    let (zx, zw) = (x.zero_point as i64, w.zero_point as i64);
    let sum = products - zw * of_x - zx * of_w + n as i64 * zx * zw;
    Ok((x.scale as f64 * w.scale as f64 * sum as f64) as f32)
}
