// What later exercises use of those before them.
pub fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    let dot = |row: &[f32]| row.iter().zip(x).map(|(w, x)| w * x).sum();
    weights.chunks_exact(x.len()).map(dot).collect()
}

pub fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32) -> Vec<f32> {
    let square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    let root = (square + epsilon).sqrt();
    x.iter().zip(scale).map(|(x, scale)| x / root * scale).collect()
}

pub fn rotate(head: &mut [f32], position: usize, base: f32) {
    let d = head.len();
    let (first, second) = head.split_at_mut(d / 2);
    for (i, (a, b)) in first.iter_mut().zip(second).enumerate() {
        let angle = position as f32 * base.powf(-2.0 * i as f32 / d as f32);
        let (sin, cos) = angle.sin_cos();
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

pub fn attend(q: &[f32], keys: &[f32], values: &[f32], position: usize, shape: &Shape) -> Vec<f32> {
    let (d, group) = (shape.head_dim, shape.n_head / shape.n_kv_head);
    let mut out = vec![0.0; q.len()];
    for (h, (q, out)) in q.chunks_exact(d).zip(out.chunks_exact_mut(d)).enumerate() {
        let start = |t: usize| (t * shape.n_kv_head + h / group) * d;
        let score = |t: usize| {
            let key = &keys[start(t)..][..d];
            q.iter().zip(key).map(|(q, k)| q * k).sum::<f32>() / (d as f32).sqrt()
        };
        let scores: Vec<f32> = (0..=position).map(score).collect();
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - largest).exp()).collect();
        let sum: f32 = weights.iter().sum();
        for (t, weight) in weights.iter().enumerate() {
            let value = &values[start(t)..][..d];
            out.iter_mut().zip(value).for_each(|(out, v)| *out += weight / sum * v);
        }
    }
    out
}

pub fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    let silu = |g: f32| g / (1.0 + (-g).exp());
    let (gate, up) = (matvec(&block.gate, x), matvec(&block.up, x));
    let hidden: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| silu(*g) * u).collect();
    matvec(&block.down, &hidden)
}

pub fn run_block(x: &mut [Vec<f32>], block: &Block, shape: &Shape) {
    let (d, base) = (shape.head_dim, shape.rope_base);
    let (mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (t, x) in x.iter().enumerate() {
        let normed = rms_norm(x, &block.attention_norm, shape.epsilon);
        let (mut q, mut k) = (matvec(&block.q, &normed), matvec(&block.k, &normed));
        q.chunks_exact_mut(d).for_each(|head| rotate(head, t, base));
        k.chunks_exact_mut(d).for_each(|head| rotate(head, t, base));
        queries.push(q);
        keys.extend(k);
        values.extend(matvec(&block.v, &normed));
    }
    for (t, x) in x.iter_mut().enumerate() {
        let out = matvec(&block.o, &attend(&queries[t], &keys, &values, t, shape));
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
        let out = mlp(&rms_norm(x, &block.mlp_norm, shape.epsilon), block);
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
    }
}

pub fn probabilities(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let Sampling { temperature, top_k, top_p } = *sampling;
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // A stable sort: of equal logits, the first stays first.
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let mut p = vec![0.0; logits.len()];
    if temperature == 0.0 {
        p[order[0]] = 1.0;
        return p;
    }
    let largest = logits[order[0]];
    let least = logits[order[top_k.unwrap_or(logits.len()).min(logits.len()) - 1]];
    for (p, logit) in p.iter_mut().zip(logits).filter(|(_, logit)| **logit >= least) {
        *p = (f64::from(logit - largest) / temperature).exp();
    }
    let all: f64 = p.iter().sum();
    let mut kept = 0.0;
    for id in order {
        if top_p < 1.0 && kept >= top_p * all {
            p[id] = 0.0;
        }
        kept += p[id];
    }
    p.iter().map(|p| p / kept).collect()
}

pub fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    for (id, p) in probabilities.iter().enumerate() {
        sum += p;
        if sum > uniform {
            return id as u32;
        }
    }
    // Rounding left the sum a hair below `uniform`.
    probabilities.iter().rposition(|p| *p > 0.0).unwrap_or(0) as u32
}

pub fn step(id: u32, model: &Llama, cache: &mut Cache) -> Vec<f32> {
    let (shape, position) = (&model.shape, cache.tokens);
    let (c, d, base) = (shape.hidden_size, shape.head_dim, shape.rope_base);
    let mut x = model.embedding[id as usize * c..][..c].to_vec();
    for (layer, block) in model.blocks.iter().enumerate() {
        let normed = rms_norm(&x, &block.attention_norm, shape.epsilon);
        let (mut q, mut k) = (matvec(&block.q, &normed), matvec(&block.k, &normed));
        q.chunks_exact_mut(d).for_each(|head| rotate(head, position, base));
        k.chunks_exact_mut(d).for_each(|head| rotate(head, position, base));
        let (keys, values) = (&mut cache.keys[layer], &mut cache.values[layer]);
        keys.extend(k);
        values.extend(matvec(&block.v, &normed));
        let out = matvec(&block.o, &attend(&q, keys, values, position, shape));
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
        let out = mlp(&rms_norm(&x, &block.mlp_norm, shape.epsilon), block);
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
    }
    cache.tokens += 1;
    let last = rms_norm(&x, &model.final_norm, shape.epsilon);
    matvec(model.head.as_ref().unwrap_or(&model.embedding), &last)
}
