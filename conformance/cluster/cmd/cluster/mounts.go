package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmountBelow unmounts everything that is mounted below the directories, the
// newest first.
func unmountBelow(dirs ...string) error {
	mounted, err := mountsBelow(dirs...)
	if err != nil {
		return err
	}
	for i := len(mounted) - 1; i >= 0; i-- {
		err := unix.Unmount(mounted[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmounting %s: %w", mounted[i], err)
		}
	}
	return nil
}

func mountsBelow(dirs ...string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parseMounts(file, dirs)
}

// parseMounts reads mount points, in the order of mounting, from lines as in
// proc(5): the fifth field is the mount point, with blanks as octal escapes.
func parseMounts(mountinfo io.Reader, dirs []string) ([]string, error) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		for _, dir := range dirs {
			if point == dir || strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
				break
			}
		}
	}
	return points, lines.Err()
}
