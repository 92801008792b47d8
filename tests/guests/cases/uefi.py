# SPDX-License-Identifier: GPL-2.0-or-later
"""UEFI firmware boots the guest, which asks it for its variables"""

import os
import subprocess
import time

import kernels
import machine

KERNEL = '6.12-cloud'


def firmware(folder):
    deb, = kernels.fetch(machine.release(), 'ovmf')
    subprocess.run(['dpkg-deb', '-x', deb, folder], check=True)
    return os.path.join(folder, 'usr/share/OVMF/OVMF_CODE.fd'), \
        os.path.join(folder, 'usr/share/OVMF/OVMF_VARS.fd')


def run(lab):
    code, variables = firmware(os.path.join(lab.folder, 'ovmf'))
    with lab.guest(modules=('efivarfs',), board='q35', more=[
            '-drive', f'if=pflash,format=raw,readonly=on,file={code}',
            '-drive', f'if=pflash,format=raw,file={variables}']) as g:
        g.run('modprobe efivarfs; mount -t efivarfs v /sys/firmware/efi/'
              'efivars')
        with g.traced('uefi.btrail') as trace:
            number = int(g.run('cat /sys/firmware/efi/efivars/* | wc -c')
                         .split()[-1])
            time.sleep(0.5)
            g.run('spin 100')
        told = g.tell()
    lab.check('uefi', number > 1000, f'variables have {number} bytes')
    lab.sound(trace)
    # Code of the firmware has no names.
    lab.judge(trace, [told], kernel=1, programs=lab.programs())
