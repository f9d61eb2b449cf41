//! Calls of the kernels for `benches/kernels.rs`, which reads the clock: this crate does not.

use super::encode::denoise::filter::Level;
use super::frame::{self, Geometry};
use super::loop_filter::{Area, EdgeFilter, Thresholds};
use super::measure::Shape;
use super::predict::intra::Edges;
use super::quantize::Steps;
use super::simd::encode::{self, EncodeKernels};
use super::simd::{Kernels, SubPel};
use std::hint::black_box;
use std::rc::Rc;

/// The name of a kind of processor, and one call of its kernel.
pub type Call = (&'static str, Box<dyn FnMut()>);

/// A kernel, once for each kind of processor that runs it here.
pub struct Case {
    /// What it does, on what size.
    pub name: String,
    /// The scalar one first.
    pub calls: Vec<Call>,
}

/// Samples with some texture, and what moved a little and got noise.
struct Samples {
    src: Vec<u8>,
    reference: Vec<u8>,
}

const STRIDE: usize = 1344;
const AT: usize = 40 * STRIDE + 101;

impl Samples {
    fn new() -> Samples {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8 % 16
        };
        let texture = |at: usize| ((at % STRIDE) * 3 % 160 + (at / STRIDE) * 5 % 60) as u8;
        let src = (0..STRIDE * 100).map(|at| texture(at) + noise()).collect();
        let reference = (0..STRIDE * 100).map(|at| texture(at + 2) + noise()).collect();
        Samples { src, reference }
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut cases = Cases { samples: Rc::new(Samples::new()), cases: Vec::new() };
    cases.distances();
    cases.costs();
    cases.transforms();
    cases.planes();
    cases.decoding();
    cases.cases
}

struct Cases {
    samples: Rc<Samples>,
    cases: Vec<Case>,
}

impl Cases {
    fn encode<F: FnMut() + 'static>(
        &mut self,
        name: impl Into<String>,
        call: impl Fn(&'static EncodeKernels, Rc<Samples>) -> F,
    ) {
        let call = |kernels: &'static EncodeKernels| -> Call {
            (kernels.name, Box::new(call(kernels, self.samples.clone())))
        };
        let calls = EncodeKernels::all().into_iter().map(call).collect();
        self.cases.push(Case { name: name.into(), calls });
    }

    fn decode<F: FnMut() + 'static>(
        &mut self,
        name: impl Into<String>,
        call: impl Fn(&'static Kernels, Rc<Samples>) -> F,
    ) {
        let call = |kernels: &'static Kernels| -> Call {
            (kernels.name, Box::new(call(kernels, self.samples.clone())))
        };
        let calls = Kernels::all().into_iter().map(call).collect();
        self.cases.push(Case { name: name.into(), calls });
    }

    fn distance(&mut self, name: &str, shape: Shape, kernel: fn(&EncodeKernels) -> &[encode::Distance; 5]) {
        let size = format!("{name} {}x{}", shape.width(), shape.height());
        self.encode(size, |kernels, samples| {
            let distance = kernel(kernels)[shape as usize];
            move || {
                black_box(distance(&samples.src[AT..], STRIDE, &samples.reference[AT + 3..], STRIDE));
            }
        });
    }

    fn distances(&mut self) {
        for shape in Shape::ALL {
            self.distance("sad", shape, |kernels| &kernels.sad);
            self.distance("satd", shape, |kernels| &kernels.satd);
            let size = format!("{}x{}", shape.width(), shape.height());
            self.encode(format!("sad of four {size}"), |kernels, samples| {
                let four = kernels.sad_four[shape as usize];
                let places = [AT, AT + 2, AT + 1 - STRIDE, AT + 1 + STRIDE];
                move || {
                    black_box(four(&samples.src[AT..], STRIDE, &samples.reference, STRIDE, places));
                }
            });
            for (eighths, (x, y)) in [("half across", (4, 0)), ("quarters", (2, 6))] {
                for satd in [false, true] {
                    let name = if satd { "satd" } else { "sad" };
                    self.encode(format!("{name} {size} at {eighths}"), |kernels, samples| {
                        let kernels = if satd { &kernels.sub_pel_satd } else { &kernels.sub_pel_sad };
                        let distance = kernels[shape as usize];
                        move || {
                            let reference = &samples.reference[AT + 3..];
                            black_box(distance(&samples.src[AT..], STRIDE, reference, STRIDE, x, y));
                        }
                    });
                }
            }
        }
    }

    fn costs(&mut self) {
        for (at, size) in [16, 8].into_iter().enumerate() {
            self.encode(format!("four intra modes {size}x{size}"), |kernels, samples| {
                move || {
                    let edges = Edges {
                        above: &samples.src[AT - STRIDE..][..16],
                        left: &samples.src[AT + 500..][..16],
                        corner: 90,
                        has_above: true,
                        has_left: true,
                    };
                    black_box((kernels.square_costs[at])(&samples.src[AT..], STRIDE, &edges));
                }
            });
        }
        self.encode("ten intra modes 4x4", |kernels, samples| {
            let edges = samples.src[AT - STRIDE..].first_chunk().copied().unwrap_or_default();
            move || {
                black_box((kernels.subblock_costs)(&samples.src[AT..], STRIDE, &edges));
            }
        });
    }

    fn transforms(&mut self) {
        self.encode("forward dct, one block", |kernels, samples| {
            let mut out = [0; 16];
            move || {
                let reference = &samples.reference[AT..];
                (kernels.forward_block)(&samples.src[AT..], STRIDE, reference, STRIDE, &mut out);
                black_box(&mut out);
            }
        });
        self.encode("forward dct, 16 blocks", |kernels, samples| {
            let mut out = [[0; 16]; 16];
            move || {
                let reference = &samples.reference[AT..];
                (kernels.forward_luma)(&samples.src[AT..], STRIDE, reference, STRIDE, &mut out);
                black_box(&mut out);
            }
        });
        self.encode("forward dct, 4 blocks in a square", |kernels, samples| {
            let mut out = [[0; 16]; 4];
            move || {
                let reference = &samples.reference[AT..];
                (kernels.forward_chroma)(&samples.src[AT..], STRIDE, reference, STRIDE, &mut out);
                black_box(&mut out);
            }
        });
        let coefficients: [[i16; 16]; 16] =
            std::array::from_fn(|block| std::array::from_fn(|at| (block * at * 37 % 199) as i16 - 99));
        self.encode("forward wht", |kernels, _| {
            move || {
                black_box((kernels.forward_wht)(black_box(&coefficients[5])));
            }
        });
        let steps = Steps::new([20, 24], &[48; 16], &[0; 16]);
        self.encode("quantise, one block", |kernels, _| {
            let (mut levels, mut back) = ([0; 16], [0; 16]);
            move || {
                black_box((kernels.quantize)(black_box(&coefficients[5]), &steps, &mut levels, &mut back));
                black_box((&mut levels, &mut back));
            }
        });
        self.encode("quantise, 16 blocks", |kernels, _| {
            let (mut levels, mut back, mut ends) = ([[0; 16]; 16], [[0; 16]; 16], [0; 16]);
            move || {
                (kernels.quantize_run)(black_box(&coefficients), &steps, &mut levels, &mut back, &mut ends);
                black_box((&mut levels, &mut back, &mut ends));
            }
        });
    }

    fn planes(&mut self) {
        self.encode("denoise, one block 8x8", |kernels, samples| {
            let (level, mut out) = (Level::new(5 * 64, 200), [0; 64]);
            move || {
                let (source, predicted) = (&samples.src[AT..], &samples.reference[AT..]);
                black_box((kernels.denoise)(&level, (source, STRIDE), (predicted, STRIDE), (&mut out, 8)));
            }
        });
        self.encode("sse of a plane 1280x64", |kernels, samples| {
            move || {
                black_box((kernels.plane_sse)(
                    (&samples.src, STRIDE),
                    (&samples.reference, STRIDE),
                    1280,
                    64,
                ));
            }
        });
    }

    fn sub_pel(&mut self, name: &str, size: usize, kernel: fn(&Kernels) -> SubPel) {
        for (at, (x, y)) in [("across", (2, 0)), ("down", (0, 6)), ("both", (2, 6))] {
            self.decode(format!("{name} {size}x{size} {at}"), |kernels, samples| {
                let filter = kernel(kernels);
                let mut out = [0; 16 * 16];
                move || {
                    filter(&mut out, 16, &samples.reference[AT..], STRIDE, x, y);
                    black_box(&mut out);
                }
            });
        }
    }

    fn decoding(&mut self) {
        self.sub_pel("six taps", 16, |kernels| kernels.six_tap[0]);
        self.sub_pel("six taps", 8, |kernels| kernels.six_tap[1]);
        self.sub_pel("six taps", 4, |kernels| kernels.six_tap[2]);
        self.sub_pel("bilinear", 16, |kernels| kernels.bilinear[0]);
        self.sub_pel("bilinear", 8, |kernels| kernels.bilinear[1]);
        self.decode("inverse dct, 4 blocks", |kernels, _| {
            let mut out = [100; 64];
            move || {
                let mut coefficients = black_box([30; 64]);
                (kernels.add_four)(&mut out, 16, &mut coefficients);
                black_box(&mut out);
            }
        });
        type Kernel = fn(&Kernels) -> EdgeFilter;
        let edges: [(&str, Kernel); 4] = [
            ("left edge", |kernels| kernels.normal_filter.left),
            ("columns", |kernels| kernels.normal_filter.columns),
            ("top edge", |kernels| kernels.normal_filter.top),
            ("rows", |kernels| kernels.normal_filter.rows),
        ];
        for (name, kernel) in edges {
            self.decode(format!("normal loop filter, {name}"), |kernels, samples| {
                let filter = kernel(kernels);
                let mut planes = [(); 3].map(|()| samples.src[..STRIDE * 60].to_vec());
                let thresholds =
                    Thresholds { macroblock_edge: 60, subblock_edge: 50, interior: 20, high_variance: 1 };
                move || {
                    let [y, u, v] = &mut planes;
                    let mut area = Area { y, u, v, y_stride: STRIDE, uv_stride: STRIDE };
                    filter(&mut area, AT, AT, &thresholds);
                }
            });
        }
        self.decode("hash of a frame, 1280x720", |_, samples| {
            let geometry = Geometry::new(1280, 720);
            let planes = [0, 1, 2].map(|index| {
                let (_, lines, stride) = geometry.plane(index);
                samples.src.iter().copied().cycle().take(lines * stride).collect::<Vec<u8>>()
            });
            move || {
                black_box(frame::hash(&geometry, planes.each_ref().map(|plane| &plane[..])));
            }
        });
    }
}
