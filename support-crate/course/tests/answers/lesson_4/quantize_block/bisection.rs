// Sorts the codes by their numbers and finds each value by bisection among the midpoints.
// right
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let mut order: Vec<u8> = (0..16).collect();
    order.sort_by(|&a, &b| codebook[a as usize].total_cmp(&codebook[b as usize]));
    let number = |place: usize| f64::from(codebook[order[place] as usize]);
    let limits: Vec<f64> = (0..15).map(|place| (number(place) + number(place + 1)) / 2.0).collect();

    let mut absmax = 0.0_f32;
    for value in values {
        if value.abs() > absmax {
            absmax = value.abs();
        }
    }
    let mut packed = vec![0_u8; values.len() / 2];
    for (i, value) in values.iter().enumerate() {
        let x = if absmax > 0.0 { f64::from(value / absmax) } else { 0.0 };
        let code = order[limits.partition_point(|&limit| limit < x)];
        packed[i / 2] |= if i % 2 == 0 { code << 4 } else { code };
    }
    (packed, absmax)
}
