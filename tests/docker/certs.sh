#!/bin/sh
# usage: tests/docker/certs.sh DIRECTORY
# Certificates for the tests of TLS: an authority and a rogue one; servers (server, server-expired, server-othername,
# server-rogue) as NAME.pem and NAME-key.pem; for clients a directory each, as DOCKER_CERT_PATH has it: good, expired, rogue
# (signed by the rogue), wrong-ca (trusts the rogue), encrypted (its key has a password), open (its key is for all to read),
# garbage, keyless.
set -eu

cd "$1"

authority() { # NAME
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1-key.pem" -out "$1.pem" \
		-subj "/CN=test $1" -days 30 -addext keyUsage=critical,keyCertSign 2>/dev/null
}

# signs NAME; a negative number of days is over already
certificate() { # AUTHORITY NAME DAYS EXTENSION...
	authority=$1 name=$2 days=$3
	shift 3
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$name-key.pem" -out "$name.csr" \
		-subj "/CN=test $name" 2>/dev/null
	printf '%s\n' "$@" >"$name.ext"
	openssl x509 -req -in "$name.csr" -CA "$authority.pem" -CAkey "$authority-key.pem" -set_serial "0x$(openssl rand -hex 8)" \
		-days "$days" -extfile "$name.ext" -out "$name.pem" 2>/dev/null
}

client() { # NAME AUTHORITY-TRUSTED CERTIFICATE
	mkdir -p "$1"
	cp "$2.pem" "$1/ca.pem"
	cp "$3.pem" "$1/cert.pem"
	cp "$3-key.pem" "$1/key.pem"
	chmod 600 "$1/key.pem"
}

authority ca
authority rogue-ca
here=subjectAltName=IP:127.0.0.1,DNS:localhost
certificate ca server 30 "$here" extendedKeyUsage=serverAuth
certificate ca server-expired -1 "$here" extendedKeyUsage=serverAuth
certificate ca server-othername 30 subjectAltName=DNS:other.example extendedKeyUsage=serverAuth
certificate rogue-ca server-rogue 30 "$here" extendedKeyUsage=serverAuth
certificate ca client 30 extendedKeyUsage=clientAuth
certificate ca client-expired -1 extendedKeyUsage=clientAuth
certificate rogue-ca client-rogue 30 extendedKeyUsage=clientAuth
client good ca client
client expired ca client-expired
client rogue ca client-rogue
client wrong-ca rogue-ca client
client open ca client
chmod 644 open/key.pem
client encrypted ca client
openssl ec -in client-key.pem -aes256 -passout pass:secret -out encrypted/key.pem 2>/dev/null
chmod 600 encrypted/key.pem
client garbage ca client
echo garbage >garbage/cert.pem
client keyless ca client
rm keyless/key.pem
