package routing

import "crypto/tls"

// compiledCertificate is a parsed Certificate.
type compiledCertificate struct {
	key    string
	digest digest
	pair   tls.Certificate
}

func (c *compiler) compileCertificates() error {
	old := shelf[compiledCertificate]{c.prev.certificates, func(k *compiledCertificate) string { return k.key }}
	before := ""
	for i := range c.cfg.Certificates {
		cert := &c.cfg.Certificates[i]
		if err := checkOrder("Certificate", before, cert.Key); err != nil {
			return err
		}
		before = cert.Key
		c.enc.reset()
		c.enc.certificate(cert)
		sum := c.enc.sum()
		if was := old.take(cert.Key); was != nil && was.digest == sum {
			c.next.certificates = append(c.next.certificates, was)
			continue
		}
		pair, err := tls.X509KeyPair(cert.CertPEM, cert.KeyPEM)
		if err != nil {
			return refuse(cert.Key, "the certificate and key do not make a pair: %v", err)
		}
		c.next.certificates = append(c.next.certificates, &compiledCertificate{cert.Key, sum, pair})
	}
	return nil
}
