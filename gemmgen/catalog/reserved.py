"""Names that C, C++, CUDA, HIP and CMake have taken, so that no library may be called so."""

from __future__ import annotations

import re

_WORDS = frozenset(
    # keywords of C and C++, and what is not one but cannot be redefined
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class
    compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    while xor xor_eq main std
    """
    # NAME.h must not be found in place of a header of C, CUDA or HIP
    """assert complex ctype cuda cuda_runtime hip hip_runtime errno fenv inttypes iso646 limits locale math setjmp signal stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
    features unistd memory
    """
    # CMake keeps these targets for itself
    """all clean edit_cache help install package preinstall rebuild_cache test
    """
    # what the headers of C and of POSIX that the exported files include declare
    """a64l abort abs alloca asctime asprintf atexit atof atoi atol atoll basename bcmp bcopy bsearch bzero calloc clearenv clearerr
    clock ctermid ctime cuserid daemon difftime div dprintf dup dup2 dup3 dysize ecvt environ exit fclose fcloseall fcvt fdopen feof
    ferror fflush ffs ffsl ffsll fgetc fgetpos fgets fileno flockfile fmemopen fopen fork fprintf fputc fputs fread free freopen
    fscanf fseek fseeko fsetpos ftell ftello funlockfile fwrite gcvt getc getchar getdate getdelim getenv getline getloadavg
    getopt getpid getpt
    getsubopt getw gmtime grantpt imaxabs imaxdiv index initstate jrand48 kill l64a labs lcong48 ldiv link llabs lldiv localtime longjmp lrand48
    lseek malloc mblen mbstowcs mbtowc mktemp mktime mrand48 nanosleep nice nrand48 offsetof on_exit open open_memstream optarg opterr optind optopt
    pause pclose perror pipe popen posix_memalign posix_openpt printf pselect psignal ptsname putc putchar putenv puts putw qsort quick_exit at_quick_exit raise
    rand random rawmemchr read realloc reallocarray realpath remove rename renameat rewind rindex rmdir rpmatch scanf secure_getenv
    seed48 select setbuf setbuffer setenv setjmp setlinebuf setstate setvbuf sigaction sleep snprintf sprintf srand srand48 srandom sscanf stderr stdin stdout
    stpcpy stpncpy swab symlink sync syscall sysconf system tempnam timegm timelocal timespec timeval timezone tmpfile tmpnam truncate ttyname tzname tzset
    uabs ulabs ullabs umaxabs ungetc unlink unlockpt unsetenv usleep valloc vasprintf vdprintf vfork vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf
    wait write assert_perror call_once canonicalize_file_name daylight explicit_bzero fd_mask fd_set fopencookie free_aligned_sized free_sized ftrylockfile
    getdate_err itimerspec linux unix math_errhandling obstack obstack_printf obstack_vprintf once_flag program_invocation_name
    program_invocation_short_name qecvt qfcvt qgcvt random_data drand48_data renameat2 memset_explicit sigevent timex tm u_char u_int u_long u_short
    va_list wctomb
    aligned_alloc sincos sincosf sincosl signgam drand48 erand48 mempcpy isatty access close chdir chown getcwd
    """
    # what CUDA and HIP declare beside what begins with their names
    """atomicAdd atomicSub atomicExch atomicMin atomicMax atomicInc atomicDec atomicCAS atomicAnd atomicOr atomicXor
    threadIdx blockIdx blockDim gridDim warpSize dim3 min max umin umax llmin llmax ullmin ullmax clock64 wall_clock64 globaltimer
    rsqrt rsqrtf rcbrt rcbrtf rhypot rhypotf norm normf norm3d norm3df norm4d norm4df rnorm rnormf rnorm3d rnorm3df rnorm4d rnorm4df normcdf normcdff
    normcdfinv normcdfinvf erfcinv erfcinvf erfcx erfcxf erfinv erfinvf cyl_bessel_i0 cyl_bessel_i0f cyl_bessel_i1 cyl_bessel_i1f saturate
    half half2 texture surface textureReference surfaceReference warpsize ulong uint ushort uchar longlong ulonglong
    """.split()
)

_MATH = """acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi canonicalize cbrt ceil copysign cos cosh cospi drem erf erfc exp
    exp10 exp2 expm1 fabs fdim finite floor fma fmax fmaximum fmin fminimum fmod fpclassify frexp fromfp gamma getpayload hypot ilogb isfinite isinf isnan
    isnormal
    j0 j1 jn ldexp lgamma llogb llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup pow
    pown powr remainder remquo rint rootn round roundeven scalb scalbln scalbn setpayload signbit significand sin sinh sinpi sqrt tan tanh tanpi tgamma
    totalorder trunc y0 y1 yn compoundn exp10m1 exp2m1 log10p1 log2p1 logp1 fmaxmag fminmag fmaximum_mag fmaximum_mag_num fmaximum_num
    fminimum_mag fminimum_mag_num fminimum_num fromfpx ufromfp ufromfpx setpayloadsig rsqrt sincos""".split()

_FAMILIES = re.compile("|".join((
    rf"({'|'.join(_MATH)})(f|l|f16|f32|f32x|f64|f64x|f128)?(_r)?",
    r"\w+_t",  # POSIX keeps these for types
    r"[a-z0-9]+_(r|np|unlocked)",  # and of functions declares such variants
    r"[fd](add|div|fma|mul|sqrt|sub)l?|f\d+x?(add|div|fma|mul|sqrt|sub)f\d+x?",
    r"(be|le)\d+toh|hto[bl]e\d+|mk\w*temps?(64)?|f\w+64|tmpfile64|str\w+_l",
    r"(is|to|mem|str|wcs)[a-z0-9]+",  # C keeps these for its library, where no underscore parts them from more
    r"(clock|timer|timespec|pthread|sched|mtx|cnd|thrd|tss)_\w+",
    r"(cuda|cu|hip|nv|tex|surf|atomic)[A-Z0-9]\w*",  # CUDA and HIP
    r"(char|uchar|short|ushort|int|uint|long|ulong|longlong|ulonglong|float|double)[1-4](_\d+a)?",
    r"[A-Z][A-Z0-9_]*|(PRI|SCN)\w+|[MLP]_\w+",  # macros: NULL, EOF, INT32_MAX, EINVAL, PRId64
)))


def reserved(name: str) -> bool:
    """Whether a C identifier has a meaning already, or may get one with the next header: whatever the case for words, which
    are names of files and targets too."""
    return name in _WORDS or name.lower() in _WORDS or _FAMILIES.fullmatch(name) is not None
