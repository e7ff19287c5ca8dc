package routing

import (
	"bytes"
	"math/rand/v2"
)

const audioFormType = "multipart/form-data; boundary=------------------------d74496d66958873e"

// audioForm returns a form as speech clients send it: size bytes of binary data
// in front of the model.
func audioForm(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var b bytes.Buffer
	const boundary = "--------------------------d74496d66958873e"
	b.WriteString(boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"speech.wav\"\r\nContent-Type: audio/wav\r\n\r\n")
	b.Write(data)
	b.WriteString("\r\n" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-large\r\n" + boundary + "--\r\n")
	return b.Bytes()
}
