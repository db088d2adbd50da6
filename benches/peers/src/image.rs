//! The files of a folder in memory, without blocks of zeros. They are written again for every flip.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Result;

/// The size in bytes of a block. A block of zeros counts as free space.
const BLOCK: usize = 64;

/// The files of a folder.
pub struct Image {
    folders: Vec<PathBuf>,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// The file and offset of each block that is not all zero.
    blocks: Vec<(usize, usize)>,
}

impl Image {
    /// Read a folder. Sockets and other special files are skipped.
    pub fn of(dir: &Path) -> Result<Self> {
        let mut image = Self { folders: Vec::new(), files: Vec::new(), blocks: Vec::new() };
        image.take(dir, Path::new(""))?;
        for (file, (_, bytes)) in image.files.iter().enumerate() {
            let used = bytes.chunks(BLOCK).enumerate().filter(|(_, block)| !is_zero(block));
            image.blocks.extend(
                used.filter(|(_, block)| block.len() == BLOCK)
                    .map(|(place, _)| (file, place * BLOCK)),
            );
        }
        Ok(image)
    }

    fn take(&mut self, dir: &Path, under: &Path) -> Result<()> {
        let mut entries = fs::read_dir(dir.join(under))?.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = under.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.folders.push(name.clone());
                self.take(dir, &name)?;
            } else if kind.is_file() {
                self.files.push((name, fs::read(entry.path())?));
            }
        }
        Ok(())
    }

    /// The number of bits in blocks that are not all zero.
    pub fn bits(&self) -> u64 {
        u64::try_from(self.blocks.len() * BLOCK * 8).unwrap_or(u64::MAX)
    }

    /// Write the folder with one bit flipped.
    pub fn lay_out(&self, dir: &Path, bit: Option<u64>) -> Result<()> {
        fs::create_dir_all(dir)?;
        for folder in &self.folders {
            fs::create_dir_all(dir.join(folder))?;
        }
        for (name, bytes) in &self.files {
            let file = fs::File::create(dir.join(name))?;
            file.set_len(u64::try_from(bytes.len())?)?;
            for (page, chunk) in bytes.chunks(4096).enumerate().filter(|each| !is_zero(each.1)) {
                file.write_all_at(chunk, u64::try_from(page * 4096)?)?;
            }
        }
        bit.map_or(Ok(()), |bit| self.flip(dir, usize::try_from(bit)?))
    }

    fn flip(&self, dir: &Path, bit: usize) -> Result<()> {
        let (file, start) = *self.blocks.get(bit / (BLOCK * 8)).ok_or("no such bit")?;
        let (name, bytes) = self.files.get(file).ok_or("no such file")?;
        let at = start + bit / 8 % BLOCK;
        let byte = bytes.get(at).ok_or("past the end")? ^ (1 << (bit % 8));
        let file = fs::OpenOptions::new().write(true).open(dir.join(name))?;
        Ok(file.write_all_at(&[byte], u64::try_from(at)?)?)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
