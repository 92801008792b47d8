// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kexec load|panic KERNEL INITRD WORDS: loads a kernel, to be started by
 * "kexec go", or when the one that runs panics, as it does by "kexec crash"
 */
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "programs.h"

int kexec_main(int argc, char **argv)
{
    int kernel, initrd;

    if (argc == 2 && strcmp(argv[1], "go") == 0) {
        printf("BT: kexec\n");
        fflush(stdout);
        /* The port has sent it all when the kernel starts. */
        usleep(200000);
        syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
                LINUX_REBOOT_CMD_KEXEC, NULL);
        die("reboot");
    }
    if (argc == 2 && strcmp(argv[1], "crash") == 0) {
        int fd = open("/proc/sysrq-trigger", O_WRONLY);

        if (write(fd, "c", 1) != 1) {
            die("sysrq-trigger");
        }
    }
    if (argc != 5) {
        return 2;
    }
    kernel = open(argv[2], O_RDONLY);
    initrd = open(argv[3], O_RDONLY);
    if (kernel < 0 || initrd < 0) {
        die("open");
    }
#ifdef SYS_kexec_file_load
    if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[4]) + 1,
                argv[4], strcmp(argv[1], "panic") == 0 ?
                KEXEC_FILE_ON_CRASH : 0)) {
        die("kexec_file_load");
    }
#endif
    return 0;
}
