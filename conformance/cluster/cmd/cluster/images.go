package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	pauseImage   = "registry.k8s.io/pause:3.10"
	coreDNSImage = "registry.k8s.io/coredns/coredns:v1.15.0"
	echoImage    = "registry.k8s.io/gateway-api/conformance/echo-basic"
	// user is a number: with a name the kubelet could not tell that it is not root.
	user = "65532:65532"
)

// image is one static program as an image.
type image struct {
	program string // its path; the image has it at /BASE and starts it
	names   []string
	archive string // made by build
	digest  string // made by build
}

// images are all that a cluster of our own needs.
func (l layout) images() []image {
	return append([]image{
		{program: l.image("pause"), names: []string{pauseImage}},
		{program: l.program("coredns"), names: []string{coreDNSImage}},
	}, l.testedImages()...)
}

// testedImages are those that tests run, on any cluster.
func (l layout) testedImages() []image {
	return []image{
		{program: l.image("echo-basic"), names: []string{echoImage + ":v0.1.0", echoImage + ":v0.2.0"}},
		{program: l.image("controller"), names: []string{"flexinfer.ai/controller:dev"}},
		{program: l.image("gateway"), names: []string{"flexinfer.ai/gateway:dev"}},
		{program: l.image("enginesim"), names: []string{"flexinfer.ai/enginesim:dev"}},
	}
}

type builtImages struct {
	images []image
	err    error
}

func (l layout) buildImagesInBackground() <-chan builtImages {
	result := make(chan builtImages, 1)
	go func() {
		images, err := l.buildImages(l.images())
		result <- builtImages{images, err}
	}()
	return result
}

func (l layout) buildImages(images []image) ([]image, error) {
	for i := range images {
		if err := images[i].build(l.image("")); err != nil {
			return nil, fmt.Errorf("image %s: %w", images[i].names[0], err)
		}
	}
	return images, nil
}

// build writes the image's archive, with all its names, into the directory.
func (i *image) build(dir string) error {
	content, err := layer(i.program)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressionLevel(1))
	if err != nil {
		return err
	}
	built, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	built, err = mutate.ConfigFile(built, i.config(built))
	if err != nil {
		return err
	}
	digest, err := built.ConfigName()
	if err != nil {
		return err
	}
	refs := map[name.Tag]v1.Image{}
	for _, text := range i.names {
		tag, err := name.NewTag(text)
		if err != nil {
			return err
		}
		refs[tag] = built
	}
	i.digest, i.archive = digest.String(), filepath.Join(dir, filepath.Base(i.program)+".tar")
	return tarball.MultiWriteToFile(i.archive, refs)
}

func (i *image) config(built v1.Image) *v1.ConfigFile {
	file, err := built.ConfigFile()
	if err != nil {
		file = &v1.ConfigFile{}
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{
		Entrypoint: []string{"/" + filepath.Base(i.program)},
		User:       user,
		WorkingDir: "/",
		Env:        []string{"PATH=/"},
	}
	return file
}

// layer is a tar of the program and of the directories that programs expect. The
// same program makes the same bytes.
func layer(program string) ([]byte, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, header := range []*tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: path.Base(program), Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))},
	} {
		header.ModTime = time.Unix(0, 0)
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	if _, err := archive.Write(data); err != nil {
		return nil, err
	}
	return buffer.Bytes(), archive.Close()
}

// importImages loads the images that this run of the cluster does not have yet.
func (l layout) importImages(ctx context.Context, images []image, out io.Writer) error {
	for _, i := range images {
		record := loadedFile(filepath.Base(i.program))
		if loaded, err := os.ReadFile(record); err == nil && string(loaded) == i.digest {
			continue
		}
		cmd := exec.CommandContext(ctx, "ctr", "--address", containerdSocket(), "--namespace", "k8s.io", "images", "import", i.archive)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("containerd does not take %s: %w\n%s", i.archive, err, output)
		}
		if err := os.MkdirAll(filepath.Dir(record), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(record, []byte(i.digest), 0o644); err != nil {
			return err
		}
		fmt.Fprintln(out, "loaded", strings.Join(i.names, ", "))
	}
	return nil
}

// loadImages builds the images and loads those that changed into the cluster; where
// KUBECONFIG names another one, into that. Running pods keep the image they have.
func loadImages(ctx context.Context, l layout, out io.Writer) error {
	if foreign := os.Getenv("KUBECONFIG"); foreign != "" && foreign != l.kubeconfig() {
		images, err := l.buildImages(l.testedImages())
		if err != nil {
			return err
		}
		return loadElsewhere(ctx, images, out)
	}
	images, err := l.buildImages(l.images())
	if err != nil {
		return err
	}
	if other, err := owner(); err != nil || other != l.state {
		return errors.Join(errors.New("there is no cluster of this directory: start it by `make cluster-up`"), err)
	}
	unlock, err := lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return l.importImages(ctx, images, out)
}

// loadElsewhere loads images into a kind cluster. How those of others get images is
// not known here: their archives are named, and the nodes are to hold them.
func loadElsewhere(ctx context.Context, images []image, out io.Writer) error {
	current, err := exec.CommandContext(ctx, "kubectl", "config", "current-context").Output()
	if err != nil {
		return fmt.Errorf("kubectl finds no current context in KUBECONFIG: %w", err)
	}
	cluster, isKind := strings.CutPrefix(strings.TrimSpace(string(current)), "kind-")
	for _, i := range images {
		if !isKind {
			fmt.Fprintf(out, "the cluster is not made by kind: its nodes must hold %s, of %s\n", strings.Join(i.names, ", "), i.archive)
			continue
		}
		cmd := exec.CommandContext(ctx, "kind", "load", "image-archive", "--name", cluster, i.archive)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kind load image-archive %s: %w\n%s", i.archive, err, output)
		}
		fmt.Fprintln(out, "loaded", strings.Join(i.names, ", "))
	}
	return nil
}
