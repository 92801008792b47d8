# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that is a Debian as people have it: its base system, systemd and its
kernel, from packages.

What a test adds is on a disk of its own.  The script "run" on it is executed
when the guest has booted, with the first serial port for a terminal.
"""

import hashlib
import os
import shutil
import subprocess

import machine

INCLUDE = ('linux-image-amd64', 'python3', 'udev', 'kmod')
SIZE = '3G'
SERVICE = '''[Unit]
Description=what the test has added
After=multi-user.target

[Service]
ExecStart=/bin/sh -c 'mount /dev/vdb /mnt && exec /bin/sh -e /mnt/run'
StandardInput=tty-force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0

[Install]
WantedBy=multi-user.target
'''
# DKMS builds for the kernel that is there, not for the one that runs.
BUILD = '''apt-get -q -y install --no-install-recommends dkms linux-headers-amd64
kernel=$(ls /lib/modules)
for folder in /build/*; do
    name=$(basename $folder)
    if [ -e $folder/dkms.conf ]; then
        mv $folder /usr/src
        dkms install ${name%-*}/${name##*-} -k $kernel
    else
        make -C /lib/modules/$kernel/build M=$folder modules
        install -D -t /lib/modules/$kernel/updates $folder/*.ko
    fi
done
rm -rf /build
depmod $kernel
'''


def _make(release, modules, folder):
    """Write image, vmlinuz and initrd into a folder."""
    root = os.path.join(folder, 'root')
    os.mkdir(folder)
    machine.mmdebstrap(
        release, root, INCLUDE, '--customize-hook=mkdir "$1"/build',
        *(f'--customize-hook=copy-in {path} /build' for path in modules),
        f'--customize-hook=chroot "$1" sh -ec \'{BUILD}\''
        if modules else '--customize-hook=true')
    for name in 'vmlinuz', 'initrd.img':
        shutil.copy(os.path.realpath(os.path.join(root, name)),
                    os.path.join(folder, name))
    units = os.path.join(root, 'etc/systemd/system')
    with open(f'{units}/test.service', 'w', encoding='ascii') as f:
        f.write(SERVICE)
    os.symlink('../test.service', f'{units}/multi-user.target.wants/'
               'test.service')
    # Nobody logs in.
    for name in 'getty.target', 'serial-getty@ttyS0.service':
        os.symlink('/dev/null', f'{units}/{name}')
    disk(root, os.path.join(folder, 'image'), SIZE)
    shutil.rmtree(root)


def disk(root, path, size):
    """Write a disk with what is in a folder."""
    subprocess.run(['mke2fs', '-q', '-t', 'ext4', '-d', root, path, size],
                   check=True,
                   env={**os.environ,
                        'PATH': f'{os.environ["PATH"]}:/usr/sbin:/sbin'})


def folder(release, modules=()):
    """The folder with a Debian's image, vmlinuz and initrd.img; made if needed.

    modules are folders with kernel modules' sources, to be built for its kernel
    and installed; by DKMS, if they are for that and named NAME-VERSION.
    """
    key = hashlib.sha256(repr((machine.mirror(machine.release()), INCLUDE,
                               SIZE, SERVICE, BUILD)).encode())
    for path in modules:
        for name in sorted(os.listdir(path)):
            with open(os.path.join(path, name), 'rb') as f:
                key.update(name.encode() + b'\0' + f.read())
    return machine.cached('debian', f'{release}-{key.hexdigest()[:16]}',
                          lambda path: _make(release, modules, path))


def args(path, added, *words):
    """QEMU's arguments to boot it; its disk stays as it is, words go to the
    kernel's command line, and added is the disk of the test."""
    return ['-kernel', f'{path}/vmlinuz', '-initrd', f'{path}/initrd.img',
            '-append', ' '.join((
                'root=/dev/vda', 'rw', 'console=ttyS0', 'quiet', 'panic=-1',
                'no_timer_check', 'systemd.show_status=0', *words)),
            '-no-reboot', '-drive',
            f'file={path}/image,format=raw,if=virtio,snapshot=on',
            '-drive', f'file={added},format=raw,if=virtio,snapshot=on']
