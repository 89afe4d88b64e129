// e^g over 1 + e^g.
// wrong: stays finite
fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    let silu = |g: f32| g * g.exp() / (1.0 + g.exp());
    let (gate, up) = (matvec(&block.gate, x), matvec(&block.up, x));
    let hidden: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| silu(*g) * u).collect();
    matvec(&block.down, &hidden)
}
