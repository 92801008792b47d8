#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Our QEMU gives a guest of KVM the Branch Trace Store if a model of a CPU is
# asked for that has it, and only then.
#
# rig: program=@qemu/qemu-system-x86_64
# rig: memory=1024
# rig: linux=kvm_intel.bts=1
set -e

# The guest is a ROM: from the reset vector to its beginning, where it executes
# CPUID with EAX = 1 and writes a letter to the debug console if EDX[21] (DS),
# ECX[2] (DTES64) and ECX[4] (DS-CPL) are set, each, and "-" if not.  With the
# first one it writes to IA32_DS_AREA and reads that, too, for another letter.
#
#  00:  mov  $1, %eax            39:  mov  $0x600, %ecx
#       cpuid                         mov  $0x12345678, %eax
#       mov  %edx, %esi               xor  %edx, %edx
#       bt   $21, %edx                wrmsr
#       mov  $'-', %al                xor  %eax, %eax
#       jnc  1f                       rdmsr
#       mov  $'D', %al                cmp  $0x12345678, %eax
#    1: out  %al, $0xe9               jne  2f
#       bt   $2, %ecx                 mov  $'M', %al
#       ... with '6'                  out  %al, $0xe9
#       bt   $4, %ecx              2: mov  $0x10, %al
#       ... with 'C'                  out  %al, $0xf4
#       bt   $21, %esi                hlt
#       jnc  2f
head -c 65520 /dev/zero >rom
printf '\352\000\000\000\360\000\000\000\000\000\000\000\000\000\000\000' >>rom
{
    printf '\146\270\001\000\000\000\017\242\146\211\326'
    printf '\146\017\272\342\025\260\055\163\002\260\104\346\351'
    printf '\146\017\272\341\002\260\055\163\002\260\066\346\351'
    printf '\146\017\272\341\004\260\055\163\002\260\103\346\351'
    printf '\146\017\272\346\025\163\042'
    printf '\146\271\000\006\000\000\146\270\170\126\064\022'
    printf '\146\061\322\017\060'
    printf '\146\061\300\017\062\146\075\170\126\064\022\165\004'
    printf '\260\115\346\351\260\020\346\364\364'
} | dd of=rom conv=notrunc 2>/dev/null

# says WHAT CPU: this is what the guest finds in it
says() {
    status=0
    rm -f out
    qemu-system-x86_64 -accel kvm -cpu "$2" -machine pc -m 16 -nodefaults \
        -display none -bios rom -chardev file,id=out,path=out \
        -device isa-debugcon,iobase=0xe9,chardev=out \
        -device isa-debug-exit,iobase=0xf4 2>messages || status=$?
    echo "$2: QEMU ended with status $status, and the guest said $(cat out)"
    grep . messages || true
    [ "$status" = 33 ]
    [ "$(cat out)" = "$1" ]
    # QEMU has a warning for what KVM does not have.
    ! grep -qE '\.(ds|dtes64|ds-cpl) |:(EDX|ECX)\.(ds|dtes64|ds-cpl)' messages
}

says --- Haswell-noTSX,pmu=on
says D6CM Haswell-noTSX,pmu=on,+ds,+dtes64,+ds-cpl
says D6-M Haswell-noTSX,pmu=on,+ds,+dtes64
says --- host
says D6CM host,+ds,+dtes64,+ds-cpl
