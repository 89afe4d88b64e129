// One inner number at a time, in double precision.
// right
fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    let (c, inner) = (x.len(), block.gate.len() / x.len());
    let dot = |row: &[f32]| -> f64 {
        row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum()
    };
    let mut y = vec![0.0f64; c];
    for i in 0..inner {
        let (g, u) = (dot(&block.gate[i * c..][..c]), dot(&block.up[i * c..][..c]));
        // A sigmoid that overflows on neither side.
        let sigmoid = if g >= 0.0 { 1.0 / (1.0 + (-g).exp()) } else { g.exp() / (1.0 + g.exp()) };
        for o in 0..c {
            y[o] += f64::from(block.down[o * inner + i]) * g * sigmoid * u;
        }
    }
    y.iter().map(|y| *y as f32).collect()
}
