// With a loop, and SiLU by the sigmoid.
// right
fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    let mut hidden = matvec(&block.gate, x);
    let up = matvec(&block.up, x);
    for i in 0..hidden.len() {
        let sigmoid = 1.0 / (1.0 + (-hidden[i]).exp());
        hidden[i] *= sigmoid * up[i];
    }
    matvec(&block.down, &hidden)
}
