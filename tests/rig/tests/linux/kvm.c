/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * KVM runs a guest here, and the host's own BTS survives it: the host's trace
 * is complete and has no branch of the guest
 *
 * rig: walk=walk_begin walk_end (T T)*2 T N T*2 N
 */
#include "kvm-walk.h"

/* mov $1000, %cx; 1: nop; loop 1b; out %al, $0x10; jmp back to the start */
static const uint8_t code[] = {
    0xb9, 0xe8, 0x03, 0x90, 0xe2, 0xfd, 0xe6, 0x10, 0xeb, 0xf6
};

int main(void)
{
    struct vm vm = vm_open(code, sizeof(code));
    struct aux aux;
    struct record *list;
    size_t count, n;

    CHECK(ioctl(vm.vcpu, KVM_RUN, 0) == 0);
    CHECK(vm.run->exit_reason == KVM_EXIT_IO);
    CHECK(vm.run->io.port == 0x10);

    aux = aux_open(false, true, 64 * 4096, 0);
    traced(aux.fd, vm.vcpu);
    CHECK(vm.run->exit_reason == KVM_EXIT_IO);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
    aux_close(&aux);

    /* The same with the kernel in the trace, and all of KVM in that */
    aux = aux_open(true, true, 512 * 4096, 0);
    traced(aux.fd, vm.vcpu);
    CHECK(vm.run->exit_reason == KVM_EXIT_IO);
    list = aux_records(&aux, &count);
    printf("%zu records of KVM and this program\n", count);
    CHECK(count > 1000);
    for (n = 0; n < count; n++) {
        if (list[n].from < 0x10000 || list[n].to < 0x10000) {
            fail("record %zu is the guest's: %llx -> %llx", n,
                 (unsigned long long)list[n].from,
                 (unsigned long long)list[n].to);
        }
    }
    return 0;
}
