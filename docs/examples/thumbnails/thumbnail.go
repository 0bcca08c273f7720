package main

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // pictures may be of these kinds
	"image/png"
	"io/fs"
	"os"
	"path/filepath"

	"osqueue/client/worker"
)

// size is a job's result.
type size struct {
	File   string `json:"file"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// makeThumbnail reads a picture and writes its thumbnail. If the file is not a picture, the job
// gets no further attempt.
func makeThumbnail(p picture) (size, error) {
	file, err := os.Open(p.From)
	if errors.Is(err, fs.ErrNotExist) {
		return size{}, worker.Permanent(err)
	} else if err != nil {
		return size{}, err
	}
	defer file.Close()
	img, _, err := image.Decode(file)
	if err != nil {
		return size{}, worker.Permanent(fmt.Errorf("%s: %w", p.From, err))
	}
	small := scale(img, width)
	if err := write(p.To, small); err != nil {
		return size{}, err
	}
	return size{File: p.To, Width: small.Bounds().Dx(), Height: small.Bounds().Dy()}, nil
}

// write writes a file atomically: it is complete or does not exist.
func write(path string, img image.Image) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".thumbnail-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // there only if something has failed
	err = errors.Join(png.Encode(file, img), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// scale makes a picture that is at most width wide. Each pixel is the mean of the pixels that
// it replaces.
func scale(img image.Image, width int) image.Image {
	from := img.Bounds()
	if from.Dx() <= width {
		return img
	}
	to := image.NewRGBA(image.Rect(0, 0, width, max(1, from.Dy()*width/from.Dx())))
	for y := range to.Rect.Dy() {
		for x := range to.Rect.Dx() {
			to.Set(x, y, mean(img, image.Rect(
				from.Min.X+x*from.Dx()/to.Rect.Dx(), from.Min.Y+y*from.Dy()/to.Rect.Dy(),
				from.Min.X+(x+1)*from.Dx()/to.Rect.Dx(), from.Min.Y+(y+1)*from.Dy()/to.Rect.Dy(),
			)))
		}
	}
	return to
}

// mean returns the mean colour of a part of a picture, of one pixel at least.
func mean(img image.Image, part image.Rectangle) color.Color {
	part.Max.X, part.Max.Y = max(part.Max.X, part.Min.X+1), max(part.Max.Y, part.Min.Y+1)
	var r, g, b, a, n uint64
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			pr, pg, pb, pa := img.At(x, y).RGBA()
			r, g, b, a, n = r+uint64(pr), g+uint64(pg), b+uint64(pb), a+uint64(pa), n+1
		}
	}
	return color.RGBA64{R: uint16(r / n), G: uint16(g / n), B: uint16(b / n), A: uint16(a / n)}
}
