//! A plot's parts: what there is to show ([`chart`]), where it goes ([`scene`], [`axis`], [`label`], [`text`]), how it looks
//! ([`style`]), and the picture as SVG ([`draw`]) and PNG ([`png`]).

pub mod axis;
pub mod chart;
pub mod draw;
pub mod label;
pub mod png;
pub mod scene;
pub mod style;
pub mod text;
