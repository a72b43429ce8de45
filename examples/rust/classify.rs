//! Classifies an image with a plan file, through the C library and without crates: the five largest outputs.
//!
//!     rustc -O classify.rs -L native=/usr/local/lib -l dylib=intact
//!     ./classify resnet18.plan photo.ppm
//!
//! The image is a binary PPM (P6) of the size that the network wants. Channels are normalized with ImageNet's mean
//! and deviation, as torchvision's models want it.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr;

/// What of intact.h this program uses.
mod ffi {
    use super::*;

    pub const FLOAT32: c_int = 8;
    pub const MAX_RANK: usize = 6;

    #[repr(C)]
    pub struct Error {
        pub size: usize,
        pub status: c_int,
        pub text: [c_char; 1000],
    }

    #[repr(C)]
    pub struct Shape {
        pub rank: i32,
        pub sizes: [i64; MAX_RANK],
    }

    extern "C" {
        pub fn intact_open(path: *const c_char, options: *const c_void, plan: *mut *mut c_void, error: *mut Error) -> c_int;
        pub fn intact_close(plan: *mut c_void);
        pub fn intact_session_new(plan: *mut c_void, session: *mut *mut c_void, error: *mut Error) -> c_int;
        pub fn intact_session_free(session: *mut c_void);
        pub fn intact_set_input_type(session: *mut c_void, index: usize, kind: c_int, error: *mut Error) -> c_int;
        pub fn intact_set_output_type(session: *mut c_void, index: usize, kind: c_int, error: *mut Error) -> c_int;
        pub fn intact_prepare(session: *mut c_void, shapes: *const Shape, error: *mut Error) -> c_int;
        pub fn intact_output_shape(session: *const c_void, index: usize, shape: *mut Shape, error: *mut Error) -> c_int;
        pub fn intact_run(
            session: *mut c_void, inputs: *const *const c_void, outputs: *const *mut c_void, error: *mut Error,
        ) -> c_int;
    }
}

/// Calls a function of the library with an error of its own, and returns the text of what it reports.
fn checked(call: impl FnOnce(*mut ffi::Error) -> c_int) -> Result<(), String> {
    let mut error = ffi::Error { size: std::mem::size_of::<ffi::Error>(), status: 0, text: [0; 1000] };
    if call(&mut error) == 0 {
        return Ok(());
    }
    // The library ends the text with 0.
    Err(unsafe { CStr::from_ptr(error.text.as_ptr()) }.to_string_lossy().into_owned())
}

/// A plan of one input and one output, and a session of it, which are freed together.
struct Classifier {
    plan: *mut c_void,
    session: *mut c_void,
}

impl Classifier {
    fn open(path: &str) -> Result<Self, String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let mut found = Classifier { plan: ptr::null_mut(), session: ptr::null_mut() };
        checked(|error| unsafe { ffi::intact_open(path.as_ptr(), ptr::null(), &mut found.plan, error) })?;
        checked(|error| unsafe { ffi::intact_session_new(found.plan, &mut found.session, error) })?;
        // Floats also where the plan has codes.
        checked(|error| unsafe { ffi::intact_set_input_type(found.session, 0, ffi::FLOAT32, error) })?;
        checked(|error| unsafe { ffi::intact_set_output_type(found.session, 0, ffi::FLOAT32, error) })?;
        Ok(found)
    }

    /// The scores of an image [1, 3, height, width].
    fn run(&mut self, image: &Image) -> Result<Vec<f32>, String> {
        assert_eq!(image.planes.len(), 3 * image.height * image.width);
        let sizes = [1, 3, image.height as i64, image.width as i64, 0, 0];
        let mut shape = ffi::Shape { rank: 4, sizes };
        checked(|error| unsafe { ffi::intact_prepare(self.session, &shape, error) })?;
        checked(|error| unsafe { ffi::intact_output_shape(self.session, 0, &mut shape, error) })?;
        let count: i64 = shape.sizes[..shape.rank as usize].iter().product();
        let mut scores = vec![0f32; count as usize];
        let inputs = [image.planes.as_ptr() as *const c_void];
        let outputs = [scores.as_mut_ptr() as *mut c_void];
        checked(|error| unsafe { ffi::intact_run(self.session, inputs.as_ptr(), outputs.as_ptr(), error) })?;
        Ok(scores)
    }
}

impl Drop for Classifier {
    fn drop(&mut self) {
        unsafe {
            ffi::intact_session_free(self.session);
            ffi::intact_close(self.plan);
        }
    }
}

/// Planes of red, green and blue, normalized.
struct Image {
    height: usize,
    width: usize,
    planes: Vec<f32>,
}

fn read_ppm(path: &str) -> Result<Image, String> {
    const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
    const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let unusable = || format!("{path}: it cannot be used");
    let mut words = Vec::new();
    let mut at = 0;
    while words.len() < 4 {
        let begin = at + bytes[at..].iter().position(|b| !b.is_ascii_whitespace()).ok_or_else(unusable)?;
        at = begin + bytes[begin..].iter().position(|b| b.is_ascii_whitespace()).ok_or_else(unusable)?;
        words.push(String::from_utf8_lossy(&bytes[begin..at]).into_owned());
    }
    let size = |word: &str| word.parse::<usize>().ok().filter(|n| (1..=4096).contains(n)).ok_or_else(unusable);
    let (width, height) = (size(&words[1])?, size(&words[2])?);
    let pixels = bytes.get(at + 1..at + 1 + 3 * height * width).ok_or_else(unusable)?;
    if words[0] != "P6" || words[3] != "255" {
        return Err(unusable());
    }
    let mut planes = vec![0f32; pixels.len()];
    for (i, byte) in pixels.iter().enumerate() {
        let (channel, pixel) = (i % 3, i / 3);
        planes[channel * height * width + pixel] = (f32::from(*byte) / 255.0 - MEAN[channel]) / DEVIATION[channel];
    }
    Ok(Image { height, width, planes })
}

fn classify(plan: &str, image: &str) -> Result<(), String> {
    let scores = Classifier::open(plan)?.run(&read_ppm(image)?)?;
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    for best in order.into_iter().take(5) {
        println!("class {best}: {:.6}", scores[best]);
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 3 {
        eprintln!("usage: classify model.plan image.ppm");
        std::process::exit(2);
    }
    if let Err(text) = classify(&arguments[1], &arguments[2]) {
        eprintln!("{text}");
        std::process::exit(1);
    }
}
