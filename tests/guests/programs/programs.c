// SPDX-License-Identifier: GPL-2.0-or-later
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} programs[] = {
    { "account", account_main },
    { "box", box_main },
    { "bpf", bpf_main },
    { "counted", counted_main },
    { "gone", gone_main },
    { "inner", inner_main },
    { "kexec", kexec_main },
    { "memfd", memfd_main },
    { "nested", nested_main },
    { "spin", spin_main },
    { "uring", uring_main },
};

void die(const char *what)
{
    printf("BT: error %s: %m\n", what);
    exit(1);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash ? slash + 1 : argv[0];

    for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
        if (strcmp(name, programs[i].name) == 0) {
            return programs[i].main(argc, argv);
        }
    }
    for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
        puts(programs[i].name);
    }
    return 0;
}
