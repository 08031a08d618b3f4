/*
 * The files of an SQLite database, whose names begin with LOCKHOUSE_DATABASE, as an ill disk or a sudden end leaves
 * them: by what the file says that LOCKHOUSE_FILES names, eight bytes, mapped. Only SQLite has use for pwrite64 and
 * fsync here, and it has it at a COMMIT, and when it copies what was committed from its log into the file.
 */
#define WELL 0
/* The process ends in the middle of one of the next writes; */
#define DIE_WRITING 1
/* when all is written, and nothing is sure to stay; */
#define DIE_WRITTEN 2
/* when all who read the file see it, and the caller was not told. */
#define DIE_COMMITTED 3
/* As file systems are that have found themselves ill. */
#define READ_ONLY 4

/* Of a COMMIT: for each page a head and the page. One of so many is the last. */
#define WRITES 6
/* The offset in the index, a separate file, at which SQLite locks its log to write it. */
#define LOG_LOCK 120

static volatile const int64_t *order;
static const char *database;
static int writes;
static __thread int has_synced;

__attribute__((constructor)) static void prepare_files(void)
{
    const char *path = getenv("LOCKHOUSE_FILES");
    int opened = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (opened < 0)
        return;
    database = getenv("LOCKHOUSE_DATABASE");
    void *mapped = mmap(NULL, sizeof *order, PROT_READ, MAP_SHARED, opened, 0);
    close(opened);
    if (mapped != MAP_FAILED)
        order = mapped;
}

static int is(int64_t what)
{
    return order && *order == what;
}

static int read_only(void)
{
    errno = EROFS;
    return -1;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    pause();
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at)
{
    if (is(READ_ONLY))
        return read_only();
    if (is(DIE_WRITING) && ++writes > getpid() % WRITES) {
        syscall(SYS_pwrite64, file, bytes, length / 2, at);
        die();
    }
    return syscall(SYS_pwrite64, file, bytes, length, at);
}

int fsync(int file)
{
    if (is(READ_ONLY))
        return read_only();
    if (is(DIE_WRITTEN))
        die();
    has_synced = 1;
    return (int)syscall(SYS_fsync, file);
}

/* The third argument of a call that locks is a struct flock. */
int fcntl64(int file, int what, ...)
{
    va_list rest;
    va_start(rest, what);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int failed = (int)syscall(SYS_fcntl, file, what, argument);
    const struct flock *lock = argument;
    if (what == F_SETLK && lock->l_start == LOG_LOCK) {
        if (lock->l_type == F_UNLCK && has_synced && is(DIE_COMMITTED))
            die();
        has_synced = 0;
    }
    return failed;
}

static int open_file(const char *path, int flags, mode_t mode)
{
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    if (writes && is(READ_ONLY) && database && !strncmp(path, database, strlen(database)))
        return read_only();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static mode_t mode_of(int flags, va_list rest)
{
    return flags & O_CREAT ? va_arg(rest, mode_t) : 0;
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int opened = open_file(path, flags, mode_of(flags, rest));
    va_end(rest);
    return opened;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int opened = open_file(path, flags, mode_of(flags, rest));
    va_end(rest);
    return opened;
}
