//! Codes of [`GroupedInt`](super::GroupedInt) in panels.

use super::input_blocks::BLOCK;
use crate::sizes;

/// Rows of weights in a panel.
pub const PANEL: usize = 16;

/// How many bits store a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeBits {
    /// From 0 to 15.
    Four,
    /// From 0 to 63.
    Six,
    /// From -128 to 127.
    Eight,
}

impl CodeBits {
    /// 4, 6 or 8.
    pub fn count(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Six => 6,
            Self::Eight => 8,
        }
    }

    /// Bytes of a panel.
    pub fn panel_bytes(self, k: usize) -> usize {
        PANEL * k * self.count() / 8
    }
}

/// Writes the codes of row `row` of a panel: one code a byte, those of 8 bits with their sign.
///
/// 4 codes of each row lie together, in a cell. Of 32 codes of a row, the first 16 stand in lower halves and the others
/// in upper halves of the same bytes; the upper two bits of codes of 6 bits follow in a cell for each half, whose bytes
/// have those of 4 cells, the first one's lowest. Codes of 8 bits have a byte each, increased by 128.
///
/// # Panics
/// A row that is not whole blocks of 32, a panel of another size, a row beyond it, or a code of more bits.
pub fn pack_codes(bits: CodeBits, codes: &[u8], row: usize, panel: &mut [u8]) {
    assert!(
        row < PANEL && codes.len().is_multiple_of(BLOCK),
        "row {row} of {} codes does not fit into a panel",
        codes.len()
    );
    sizes::check("panel", panel.len(), &[bits.panel_bytes(codes.len())]);
    let of_block = bits.panel_bytes(BLOCK);
    for (codes, panel) in codes.chunks_exact(BLOCK).zip(panel.chunks_exact_mut(of_block)) {
        let mut cells = panel.chunks_exact_mut(4 * PANEL).map(|cells| &mut cells[4 * row..4 * row + 4]);
        if bits == CodeBits::Eight {
            for (cell, four) in cells.zip(codes.chunks_exact(4)) {
                cell.copy_from_slice(&(word(four) ^ 0x8080_8080).to_ne_bytes());
            }
            continue;
        }
        let all = codes.iter().fold(0, |all, code| all | code);
        assert!(all >> bits.count() == 0, "a code has more than {} bits", bits.count());
        let (firsts, seconds) = codes.split_at(BLOCK / 2);
        // Ended by number, lest another cell is taken to find out that there are no more codes.
        for (cell, (low, high)) in cells.by_ref().zip(firsts.chunks_exact(4).zip(seconds.chunks_exact(4))).take(4) {
            let halves = word(low) & 0x0f0f_0f0f | (word(high) & 0x0f0f_0f0f) << 4;
            cell.copy_from_slice(&halves.to_ne_bytes());
        }
        for (cell, half) in cells.zip([firsts, seconds]) {
            let upper = half.chunks_exact(4).map(|four| word(four) >> 4 & 0x0303_0303);
            let joined = upper.enumerate().fold(0, |joined, (part, upper)| joined | upper << (2 * part));
            cell.copy_from_slice(&joined.to_ne_bytes());
        }
    }
}

/// 4 codes at once: what is done to them moves no bit from one byte to the next.
fn word(codes: &[u8]) -> u32 {
    u32::from_ne_bytes([codes[0], codes[1], codes[2], codes[3]])
}
