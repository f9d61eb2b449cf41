//! Finds the C libraries that the chosen features link and compiles the shims that stand between their headers
//! and Rust: a C compiler reads the installed headers, so no C struct is ever copied by hand.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/libavcodec_open.h");
    #[cfg(feature = "x264")]
    shim(&Library {
        feature: "x264",
        pkg_config: "x264",
        at_least: "0.155",
        debian_package: "libx264-dev",
        linked: true,
        source: "src/h264/x264_shim.c",
        header: "src/h264/x264_shim.h",
    });
    #[cfg(feature = "opus")]
    shim(&Library {
        feature: "opus",
        pkg_config: "opus",
        at_least: "1.1",
        debian_package: "libopus-dev",
        linked: true,
        source: "src/audio/opus_shim.c",
        header: "src/audio/opus_shim.h",
    });
    #[cfg(feature = "aac")]
    shim(&Library {
        feature: "aac",
        pkg_config: "libavcodec",
        // FFmpeg 5.1: the first with AVChannelLayout.
        at_least: "59.37",
        debian_package: "libavcodec-dev",
        linked: false,
        source: "src/audio/aac_shim.c",
        header: "src/audio/aac_shim.h",
    });
    #[cfg(feature = "avcodec")]
    shim(&Library {
        feature: "avcodec",
        pkg_config: "libavcodec",
        at_least: "59.37",
        debian_package: "libavcodec-dev",
        linked: false,
        source: "src/avcodec/avcodec_shim.c",
        header: "src/avcodec/avcodec_shim.h",
    });
    #[cfg(feature = "av1")]
    for library in [
        Library {
            feature: "av1",
            pkg_config: "aom",
            // The first with all controls that the shim sets; Debian 12 has it.
            at_least: "3.6.0",
            debian_package: "libaom-dev",
            linked: true,
            source: "src/av1/aom_shim.c",
            header: "src/av1/aom_shim.h",
        },
        Library {
            feature: "av1",
            pkg_config: "dav1d",
            at_least: "1.0.0",
            debian_package: "libdav1d-dev",
            linked: true,
            source: "src/av1/dav1d_shim.c",
            header: "src/av1/dav1d_shim.h",
        },
    ] {
        shim(&library);
    }
}

#[cfg(any(feature = "x264", feature = "opus", feature = "aac", feature = "avcodec", feature = "av1"))]
struct Library {
    feature: &'static str,
    pkg_config: &'static str,
    at_least: &'static str,
    debian_package: &'static str,
    /// Whether the program is linked with it; otherwise only its headers are read, and it is opened when needed.
    linked: bool,
    source: &'static str,
    header: &'static str,
}

#[cfg(any(feature = "x264", feature = "opus", feature = "aac", feature = "avcodec", feature = "av1"))]
fn shim(library: &Library) {
    println!("cargo:rerun-if-changed={}", library.source);
    println!("cargo:rerun-if-changed={}", library.header);
    // Asked twice: the include paths are needed to compile the shim, and the library has to follow the shim on
    // the linker's command line.
    let found = match probe(library, false) {
        Ok(found) => found,
        Err(error) => {
            eprintln!(
                "{error}\nglassline-codec: {name} {version} or later was not found by pkg-config.\n\
                 Install {package} (scripts/setup does), or build without it: turn the feature `{feature}` off \
                 (--no-default-features, then --features with those you want).\n",
                name = library.pkg_config,
                version = library.at_least,
                package = library.debian_package,
                feature = library.feature,
            );
            std::process::exit(1);
        }
    };
    cc::Build::new()
        .file(library.source)
        .includes(&found.include_paths)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        // Two shims may be of one library.
        .compile(&format!(
            "glassline_{}_shim",
            library.header.rsplit('/').next().unwrap_or_default().trim_end_matches("_shim.h")
        ));
    if !library.linked {
        return;
    }
    if let Err(error) = probe(library, true) {
        panic!("pkg-config found {} and then lost it: {error}", library.pkg_config);
    }
}

#[cfg(any(feature = "x264", feature = "opus", feature = "aac", feature = "avcodec", feature = "av1"))]
fn probe(library: &Library, emit: bool) -> Result<pkg_config::Library, pkg_config::Error> {
    pkg_config::Config::new()
        .atleast_version(library.at_least)
        .cargo_metadata(emit)
        .env_metadata(emit)
        .probe(library.pkg_config)
}
